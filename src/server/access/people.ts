import type { Quota } from '../../jobs/quota.js';
import { type Identity, owner } from './permissions.js';
import { isSameSecret } from './token.js';
import type { User, UserStore } from './users/user-store.js';

/** Somebody whom the server knows. */
export interface Person {
  /** Stands for him in sessions and links: empty for the owner, `user:ada`. */
  readonly subject: string;
  /** The key that signs the person's sessions; another key ends them. */
  readonly secret: string;
  readonly identity: Identity;
}

/** Everybody whom a server knows. Asked each time: users come and go while it runs. */
export interface People {
  byToken(token: string): Person | undefined;
  /** For the proof that the server knows a token; undefined where it knows none of that id. */
  byTokenId(id: string): Person | undefined;
  bySubject(subject: string): Person | undefined;
  /** The user that was added with this Unix account. */
  byAccount(account: string): Person | undefined;
}

export function openPeople(
  token: string,
  users: Pick<UserStore, 'byToken' | 'byTokenId' | 'byName' | 'byAccount'> | undefined,
): People {
  const itself: Person = { subject: '', secret: token, identity: owner };
  return {
    byToken: (given) => (isSameSecret(given, token) ? itself : known(users?.byToken(given))),
    byTokenId: (id) => known(users?.byTokenId(id)),
    bySubject(subject) {
      if (subject === '') return itself;
      const name = /^user:(.+)$/.exec(subject)?.[1];
      return name === undefined ? undefined : known(users?.byName(name));
    },
    byAccount: (account) => known(users?.byAccount(account)),
  };
}

function known(user: User | undefined): Person | undefined {
  if (user === undefined) return undefined;
  const { name, role, account, tokenHash } = user;
  const identity = { name, role, account, quota: quotaOf(user) };
  return { subject: `user:${name}`, secret: tokenHash, identity };
}

export function quotaOf({ maxMemoryBytes, maxJobs }: User): Quota {
  return { maxMemoryBytes, maxJobs };
}
