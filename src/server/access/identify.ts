import { Failure } from '../../failure.js';
import type { Sessions } from './sessions.js';
import { bearerToken, isSameSecret } from './token.js';
import type { WrongTokens } from './wrong-tokens.js';

/** Who may ask: nobody needs a token where none is set. */
export interface Gate {
  readonly token: string;
  readonly sessions: Sessions;
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

/** A session for somebody who knows the token; answers its `Set-Cookie`. */
export async function openSession(
  gate: Gate | undefined,
  given: string,
  { address, overTls }: { readonly address: string; readonly overTls: boolean },
): Promise<string> {
  if (gate === undefined) throw noTokenSet();
  await requireToken(gate, given, address);
  return gate.sessions.open(overTls);
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
    next: 'Send the header "Authorization: Bearer TOKEN"; in a browser, open the page and enter it.',
  });
}

function wrongToken(): Failure {
  return new Failure({
    kind: 'input',
    code: 'wrong-token',
    fact: 'The token is not the one of this server.',
    next: 'Ask whoever started it; PLIMSOLL_TOKEN or the token file holds it.',
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
    next: 'Just use it.',
  });
}
