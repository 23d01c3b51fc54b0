import type { Quota } from '../../jobs/quota.js';
import { ownerName } from '../../jobs/types.js';

/** From all rights to the fewest. */
export const roles = ['admin', 'user', 'viewer'] as const;
export type Role = (typeof roles)[number];

/** Who asks. */
export interface Identity {
  readonly name: string;
  readonly role: Role;
  readonly quota: Quota;
  /** The Unix account that his jobs run as, where the server is root; undefined where none is set. */
  readonly account?: string | undefined;
  /** Of a local user who was not added: the kernel's word, by which `account` is checked. */
  readonly uid?: number | undefined;
}

/** The holder of the server's own token; everybody, where it asks for none. */
export const owner: Identity = { name: ownerName, role: 'admin', quota: {} };
