import { Failure } from '../../failure.js';
import type { LoginLinks } from './login-links.js';
import { proofOf } from './proof.js';
import type { Sessions } from './sessions.js';
import { bearerToken, isSameSecret } from './token.js';
import type { WrongTokens } from './wrong-tokens.js';

/** Who may ask: nobody needs a token where none is set. */
export interface Gate {
  readonly token: string;
  readonly sessions: Sessions;
  readonly links: LoginLinks;
  readonly wrongTokens: WrongTokens;
}

/** Where a request comes from, and what it shows for itself. */
export interface Asker {
  readonly address: string;
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

/** Asked again during an answer that goes on for hours: a session may end meanwhile. */
export type MayStay = () => boolean;

const always: MayStay = () => true;

/** Throws unless the request carries the token, or the cookie of a session. */
export async function requireIdentity(gate: Gate | undefined, asker: Asker): Promise<MayStay> {
  if (gate === undefined) return always;
  const session = gate.sessions.find(asker.cookie);
  if (session !== undefined) return () => gate.sessions.isOpen(session);
  const given = bearerToken(asker.authorization);
  if (given === undefined) throw noToken();
  await requireToken(gate, given, asker.address);
  return always;
}

/** What a browser shows that wants a session: one of the two. */
export interface LoginRequest {
  readonly token?: string | undefined;
  readonly code?: string | undefined;
}

/** A session for who knows the token or has a link; answers its `Set-Cookie`. */
export async function openSession(
  gate: Gate | undefined,
  given: LoginRequest,
  { address, overTls }: { readonly address: string; readonly overTls: boolean },
): Promise<string> {
  if (gate === undefined) throw noTokenSet();
  if (given.code === undefined) await requireToken(gate, given.token ?? '', address);
  else if (!gate.links.use(given.code)) throw usedLink();
  return gate.sessions.open(overTls);
}

/** The address that logs one browser in. */
export function loginLink(gate: Gate | undefined): string {
  if (gate === undefined) throw noTokenSet();
  return gate.links.make();
}

/** What only a server with the token can answer. */
export function serverProof(gate: Gate | undefined, nonce: string): string {
  if (gate === undefined) throw noTokenSet();
  return proofOf(gate.token, nonce);
}

/** The one place where a token is tried, whichever way it came. */
async function requireToken(gate: Gate, given: string, address: string): Promise<void> {
  if (isSameSecret(given, gate.token)) return;
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
    fact: 'The token is not the one of this server.',
    next: 'Ask the person who started it. It is in the file "token" of its PLIMSOLL_HOME, in its token file or in its PLIMSOLL_TOKEN.',
  });
}

function tooManyWrongTokens(): Failure {
  return new Failure({
    kind: 'input',
    code: 'too-many-wrong-tokens',
    fact: 'Too many wrong tokens came from this address.',
    next: 'Check the token: the right one is taken at once. Wrong ones are answered slowly for a minute.',
  });
}

function noTokenSet(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-token-set',
    fact: 'This server asks for no token, so there is nothing to log in to.',
    next: 'Use it without one.',
  });
}
