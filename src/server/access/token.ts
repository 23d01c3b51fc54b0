import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Failure } from '../../failure.js';
import { isLoopback } from './hosts.js';

/** A shorter one could be found by trying, by others on this machine, too. */
const leastTokenCharacters = 16;

/**
 * A token that cannot be guessed: 256 bits, in letters that need no quotes.
 *
 * @example
 * newToken(); // 'kJ2v...': 43 letters
 */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** In a time that tells nothing of how much of it was right. */
export function isSameSecret(given: string, expected: string): boolean {
  return timingSafeEqual(digest(given), digest(expected));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** The token of `Authorization: Bearer TOKEN`. */
export function bearerToken(header: string | undefined): string | undefined {
  return /^bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
}

/** Submitting a job runs a command: a client on another machine must know a secret. */
export function checkToken(host: string, token: string | undefined): void {
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw new Failure({
      kind: 'input',
      code: 'bad-token',
      fact: 'The token is empty, or has characters that a header cannot contain.',
      next: 'Make one with "openssl rand -hex 32".',
    });
  }
  if (token === undefined) {
    if (isLoopback(host)) return;
    throw new Failure({
      kind: 'input',
      code: 'token-needed',
      fact: `Other machines can reach the server at ${host} and could run commands on this machine.`,
      next: 'Leave out --no-token, or listen on 127.0.0.1.',
    });
  }
  if (token.length < leastTokenCharacters) {
    throw new Failure({
      kind: 'input',
      code: 'weak-token',
      fact: `The token has ${token.length} characters.`,
      next: `Use ${leastTokenCharacters} or more: "openssl rand -hex 32" makes a good one.`,
    });
  }
}

/**
 * Shows that a server knows the token without sending it: what it answers to `nonce`. A client asks
 * for it before it sends a token or a job, since another program may have taken the port.
 */
export function proofOf(token: string, nonce: string): string {
  return createHmac('sha256', token).update(`plimsoll server ${nonce}`).digest('base64url');
}

export function isProof(given: string, token: string, nonce: string): boolean {
  return isSameSecret(given, proofOf(token, nonce));
}
