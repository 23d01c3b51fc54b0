import { randomBytes } from 'node:crypto';
import { Failure } from '../../failure.js';
import type { LocalPeople } from '../local/local-people.js';
import type { PeerCredentials } from '../local/peer-credentials.js';
import type { People, Person } from './people.js';
import { type Identity, owner } from './permissions.js';
import type { Sessions } from './sessions.js';
import { bearerToken, proofOf, type WrongTokens } from './token.js';

/** Which clients are let in: without a gate no token is needed. */
export interface Gate {
  readonly token: string;
  readonly people: People;
  /** People known by their account on the local socket; without it there is no such socket. */
  readonly local?: LocalPeople | undefined;
  readonly sessions: Sessions;
  readonly links: LoginLinks;
  readonly wrongTokens: WrongTokens;
}

/** The origin of a request, and its credentials. */
export interface Asker {
  readonly address: string;
  /** On the local socket: what the kernel says of the client. */
  readonly peer?: PeerCredentials | undefined;
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

/** The person who asks, and the evidence. */
export interface Identified {
  readonly identity: Identity;
  readonly via: 'token' | 'session' | 'socket' | 'none';
  /** For links and sessions that are made for him. */
  readonly subject: string;
  /** Asked again during an answer that goes on for hours: a session may end meanwhile, or a user. */
  readonly mayStay: () => boolean;
}

const anybody: Identified = {
  identity: owner,
  via: 'none',
  subject: '',
  mayStay: () => true,
};

/** Throws unless the request carries a token or the cookie of a session, or comes from a known account. */
export async function requireIdentity(gate: Gate | undefined, asker: Asker): Promise<Identified> {
  if (gate === undefined) return anybody;
  const { people, sessions } = gate;
  const session = sessions.find(asker.cookie);
  const ofSession = session && people.bySubject(session.subject);
  if (session !== undefined && ofSession !== undefined) {
    const known = identified(ofSession, 'session', people);
    return { ...known, mayStay: () => sessions.isOpen(session) && known.mayStay() };
  }
  const given = bearerToken(asker.authorization);
  if (given !== undefined) {
    return identified(await requireToken(gate, given, asker.address), 'token', people);
  }
  if (asker.peer !== undefined && gate.local !== undefined) {
    return identified(await gate.local.of(asker.peer), 'socket', people);
  }
  throw noToken();
}

function identified(person: Person, via: Identified['via'], people: People): Identified {
  const { identity, subject, secret } = person;
  const mayStay = (): boolean => {
    const now = people.bySubject(subject);
    return now?.secret === secret && now.identity.role === identity.role;
  };
  return { identity, via, subject, mayStay };
}

/** The credentials of a browser that wants a session: one of the two. */
export interface LoginRequest {
  readonly token?: string | undefined;
  readonly code?: string | undefined;
}

export interface OpenedSession {
  /** The value of `Set-Cookie`. */
  readonly cookie: string;
  readonly name: string;
  readonly via: 'token' | 'link';
}

/** A session for who knows a token or has a link. */
export async function openSession(
  gate: Gate | undefined,
  given: LoginRequest,
  { address, overTls }: { readonly address: string; readonly overTls: boolean },
): Promise<OpenedSession> {
  if (gate === undefined) throw noTokenSet();
  const { code } = given;
  const person =
    code === undefined
      ? await requireToken(gate, given.token ?? '', address)
      : personOfLink(gate, code);
  return {
    cookie: gate.sessions.open(overTls, person.subject),
    name: person.identity.name,
    via: code === undefined ? 'token' : 'link',
  };
}

function personOfLink({ links, people }: Gate, code: string): Person {
  const subject = links.use(code);
  const person = subject === undefined ? undefined : people.bySubject(subject);
  if (person === undefined) throw usedLink();
  return person;
}

/** The address that logs one browser in, as the person who asks for it. */
export function loginLink(gate: Gate | undefined, subject = ''): string {
  if (gate === undefined) throw noTokenSet();
  return gate.links.make(subject);
}

/**
 * Returns a proof that only a server with the token can give: the server's own token, or that of
 * the user with this id, of which it knows the hash.
 */
export function serverProof(gate: Gate | undefined, nonce: string, id?: string): string {
  if (gate === undefined) throw noTokenSet();
  if (id === undefined) return proofOf(gate.token, nonce);
  const person = gate.people.byTokenId(id);
  if (person === undefined) throw wrongToken();
  return proofOf(person.secret, nonce);
}

/** The one place where a token is tried, whichever way it came. */
async function requireToken(gate: Gate, given: string, address: string): Promise<Person> {
  const person = gate.people.byToken(given);
  if (person !== undefined) return person;
  throw (await gate.wrongTokens.add(address)) ? tooManyWrongTokens() : wrongToken();
}

function noToken(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-token',
    fact: 'This server asks for a token.',
    next: 'Send the header "Authorization: Bearer TOKEN"; in a browser, open the link that "plimsoll dashboard" prints.',
  });
}

function usedLink(): Failure {
  return new Failure({
    kind: 'input',
    code: 'used-link',
    fact: 'This link was used before, or is older than an hour.',
    next: 'Get a new one with "plimsoll dashboard", or enter the token.',
  });
}

function wrongToken(): Failure {
  return new Failure({
    kind: 'input',
    code: 'wrong-token',
    fact: 'This server does not know the token.',
    next: 'Ask the person who runs it. The token of the server is in the file "token" of its PLIMSOLL_HOME, in its token file or in its PLIMSOLL_TOKEN; that of a user is shown once, by "plimsoll users add".',
  });
}

function tooManyWrongTokens(): Failure {
  return new Failure({
    kind: 'input',
    code: 'too-many-wrong-tokens',
    fact: 'Too many wrong tokens came from this address.',
    next: 'Check the token. The right one is accepted at once; wrong ones are answered slowly for a minute.',
  });
}

function noTokenSet(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-token-set',
    fact: 'This server does not use tokens, so there is no login.',
    next: 'Use it without a token.',
  });
}

/** Long enough to be opened after a break; the link stands in the terminal of its owner alone. */
const linkSeconds = 3600;
/** Limit of open links; more requests drop the first. */
const maxLinks = 100;

/**
 * Links that log a browser in, each once. The code is in the fragment of the address: a browser sends
 * that to no server, so it stands in no log.
 */
export class LoginLinks {
  readonly #seconds: () => number;
  /** Whom each logs in, and when it ends; oldest first. */
  readonly #codes = new Map<string, { readonly subject: string; readonly until: number }>();

  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  /** Returns the part after the page's address; `subject` as in `People`. */
  make(subject = ''): string {
    const code = randomBytes(32).toString('base64url');
    this.#codes.set(code, { subject, until: this.#seconds() + linkSeconds });
    const [oldest] = this.#codes.keys();
    if (this.#codes.size > maxLinks && oldest !== undefined) this.#codes.delete(oldest);
    return `/#login=${code}`;
  }

  /** Whom it logs in: once, and not for ever. A lookup of 256 random bits leaks no part. */
  use(code: string): string | undefined {
    const found = this.#codes.get(code);
    this.#codes.delete(code);
    return found !== undefined && found.until > this.#seconds() ? found.subject : undefined;
  }
}
