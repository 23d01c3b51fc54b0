import { createHash, randomBytes } from 'node:crypto';
import { Failure } from '../../../failure.js';
import { ownerName } from '../../../jobs/types.js';
import type { Role } from '../identity.js';

/** Somebody with a token of his own. */
export interface User {
  readonly name: string;
  readonly role: Role;
  readonly tokenId: string;
  readonly tokenHash: string;
  readonly maxMemoryBytes: number | undefined;
  readonly maxJobs: number | undefined;
  /** The Unix account that his jobs run as, on a server that runs as root. */
  readonly account: string | undefined;
  readonly addedAt: string;
}

/** What can be changed of a user; what is left out stays, and `null` takes a limit away. */
export interface UserChange {
  readonly role?: Role | undefined;
  readonly maxMemoryBytes?: number | null | undefined;
  readonly maxJobs?: number | null | undefined;
  readonly account?: string | null | undefined;
  readonly token?: { readonly id: string; readonly hash: string } | undefined;
}

/** Words that stand for others where a name is shown. */
const takenNames: ReadonlyMap<string, string> = new Map([
  [ownerName, `"${ownerName}" is who has the token of the server itself.`],
  ['unknown', '"unknown" is who has no valid token, in the audit log.'],
]);

export function checkUserName(name: string): void {
  const taken = takenNames.get(name);
  if (/^[a-z0-9][a-z0-9._-]{0,31}$/i.test(name) && taken === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-user-name',
    fact: taken ?? `"${name.slice(0, 60)}" cannot be the name of a user.`,
    next: 'Use 1 to 32 letters, digits, dots, dashes and underscores, such as ada.',
  });
}

export function unknownUser(name: string, known: readonly string[]): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-user',
    fact: `There is no user "${name.slice(0, 60)}".`,
    next:
      known.length === 0
        ? 'There are no users yet: plimsoll users add NAME'
        : `There are ${known.slice(0, 20).join(', ')}.`,
  });
}

export function userExists(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'user-exists',
    fact: `There is a user ${name} already.`,
    next: `Change it with "plimsoll users change ${name}"; --new-token gives it a new token.`,
  });
}

/**
 * The token of a user: a part that names it, and 256 random bits. Only a hash is kept; a plain one is
 * enough, since 2^256 secrets cannot be tried.
 */
export interface UserToken {
  readonly token: string;
  readonly id: string;
  readonly hash: string;
}

export function newUserToken(): UserToken {
  const id = randomBytes(6).toString('hex');
  const token = `pu_${id}_${randomBytes(32).toString('base64url')}`;
  return { token, id, hash: hashOfToken(token) };
}

/** The part that may be told; undefined where it is no token of a user. */
export function tokenId(token: string): string | undefined {
  return /^pu_([\da-f]{12})_[\w-]{43}$/.exec(token)?.[1];
}

export function hashOfToken(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
