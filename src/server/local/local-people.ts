import { createHmac } from 'node:crypto';
import { Failure } from '../../failure.js';
import type { Person } from '../access/people.js';
import { owner } from '../access/permissions.js';
import type { PeerCredentials } from './peer-credentials.js';

export interface LocalPeopleOptions {
  readonly serverUid: number | undefined;
  /** Whether others than the owner may use the local socket. */
  readonly forAll: boolean;
  /** The token of the server: it signs their sessions in a browser. */
  readonly token: string;
  /** The user whose account it is, of those who were added. */
  readonly byAccount: (account: string) => Person | undefined;
  /** The name of an account; undefined where the machine has none for the uid. */
  readonly nameOf: (uid: number) => Promise<string | undefined>;
  /** Whether the kernel shows this uid for every account that it cannot name to the server. */
  readonly isUnknown: (uid: number) => boolean;
}

/** Accounts of this machine, known by what the kernel says of the local socket. */
export interface LocalPeople {
  /** Throws a `Failure` for an account that may not use this server. */
  of(peer: PeerCredentials): Promise<Person>;
  bySubject(subject: string): Person | undefined;
}

/**
 * The account of the server, and root, are its owner. Others are the user that was added with that
 * account; where there is none, a server that is root takes them as users of their own, for it can run
 * their jobs as them.
 */
export function openLocalPeople(options: LocalPeopleOptions): LocalPeople {
  const { serverUid, forAll, token, byAccount, nameOf, isUnknown } = options;
  const itself: Person = { subject: '', secret: token, identity: owner };
  const ofAccount = (uid: number, account: string): Person => {
    const subject = `local:${uid}:${account}`;
    return {
      subject,
      secret: createHmac('sha256', token).update(subject).digest('base64url'),
      // No user that was added has such a name: jobs of one are never taken for those of the other.
      identity: { name: `${account}@local`, role: 'user', quota: {}, account, uid },
    };
  };
  const takesAll = forAll && serverUid === 0;
  return {
    async of({ uid }) {
      if (uid === serverUid || uid === 0) return itself;
      if (!forAll) throw ownerOnly(uid);
      const name = isUnknown(uid) ? undefined : await nameOf(uid);
      if (name === undefined) throw unknownUid(uid);
      const person = byAccount(name);
      if (person !== undefined) return person;
      if (!takesAll) throw notAdded(name);
      return ofAccount(uid, name);
    },
    bySubject(subject) {
      const [, uid, name] = /^local:(\d{1,10}):(.+)$/.exec(subject) ?? [];
      if (!takesAll || uid === undefined || name === undefined) return undefined;
      return byAccount(name) === undefined ? ofAccount(Number(uid), name) : undefined;
    },
  };
}

function ownerOnly(uid: number): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-a-local-user',
    fact: `The socket of this server is for its owner, and you are uid ${uid}.`,
    next: 'Use a token, or ask the owner to start it with --local-users.',
  });
}

function unknownUid(uid: number): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-a-local-user',
    fact: `The machine of the server has no account with uid ${uid}.`,
    next: 'Use an account of that machine, or a token.',
  });
}

function notAdded(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-a-local-user',
    fact: `This server does not run as root, so it cannot run jobs as ${name}; and no user was added for that account.`,
    next: `The owner can add one, whose jobs run as the server does: plimsoll users add ${name} --account ${name}`,
  });
}
