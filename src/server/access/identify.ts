import { Failure } from '../../failure.js';
import { type Sessions } from './sessions.js';
import { bearerToken, isSameSecret } from './token.js';
import type { WrongTokens } from './wrong-tokens.js';

/** Who may ask: nobody needs a token where none is set. */
export interface Gate {
  readonly token: string;
  readonly sessions: Sessions;
  readonly wrongTokens: WrongTokens;
}

/** Throws unless the request carries the token, or the cookie of a session. */
export function requireIdentity(
  gate: Gate | undefined,
  { authorization, cookie }: { authorization?: string | undefined; cookie?: string | undefined },
): void {
  if (gate === undefined || gate.sessions.isOpen(cookie)) return;
  const given = bearerToken(authorization);
  if (given === undefined) throw noToken();
  if (!isSameSecret(given, gate.token)) throw wrongToken();
}

/** A session for somebody who knows the token; answers its `Set-Cookie`. */
export function openSession(
  gate: Gate | undefined,
  given: string,
  { address, overTls }: { readonly address: string; readonly overTls: boolean },
): string {
  if (gate === undefined) throw noTokenSet();
  if (gate.wrongTokens.mustWait(address)) throw tooManyWrongTokens();
  if (!isSameSecret(given, gate.token)) {
    gate.wrongTokens.add(address);
    throw wrongToken();
  }
  return gate.sessions.open(overTls);
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
    next: 'Wait a minute.',
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
