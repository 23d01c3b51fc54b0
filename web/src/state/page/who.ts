import type { JobSummary } from '../../api/types.js';
import { createStore } from '../live/store.js';

/** The person who looks at the page, by the server's answer. */
export interface Who {
  readonly name: string;
  readonly role: 'admin' | 'user' | 'viewer';
}

/** Until the server has said it, nothing is hidden: the server decides in any case. */
export const who = createStore<Who>({ name: '', role: 'admin' });

/** `ada, viewer`; empty for who has the token of the server itself. */
export function whoWords({ name, role }: Who): string {
  return name === '' || name === 'owner' ? '' : `${name}, ${role}`;
}

export function mayWork({ role }: Who): boolean {
  return role !== 'viewer';
}

/** Why he may not cancel a job or read its log; undefined where he may. */
export function notYours(
  { name, role }: Who,
  { owner }: Pick<JobSummary, 'owner'>,
): string | undefined {
  if (role === 'admin') return undefined;
  if (role === 'viewer') return 'A viewer cannot cancel jobs or read logs.';
  return owner === name ? undefined : `It belongs to ${owner}.`;
}
