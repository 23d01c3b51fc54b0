import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { Failure } from '../../failure.js';
import type { Clock } from '../../time/clock.js';
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

/** Wrong tokens count for so long. */
const windowSeconds = 60;
/** Networks that are remembered; beyond, the one that failed longest ago is forgotten. */
const maxNetworks = 10_000;

export interface WrongTokenOptions {
  /** In a minute; answers to more of them are held back. */
  readonly most: number;
  readonly delaySeconds: number;
  /** At the same time; beyond, answers are sent at once, so that they cannot fill the memory. */
  readonly maxDelayed: number;
  readonly clock: Clock;
  /** Lets go of all that is held. */
  readonly closed?: AbortSignal | undefined;
}

/**
 * Counts wrong tokens by where they come from, and makes trying them slow. A client with the right one
 * is never made to wait: behind a proxy all come from one address, and one of them must not lock out
 * the others.
 */
export class WrongTokens {
  readonly #options: WrongTokenOptions;
  readonly #byNetwork = new Map<string, { count: number; since: number }>();
  #held = 0;

  constructor(options: WrongTokenOptions) {
    this.#options = options;
  }

  /** One more. Answers, maybe a little later, whether they are too many. */
  async add(address: string): Promise<boolean> {
    const { most, maxDelayed, delaySeconds, clock, closed } = this.#options;
    if (this.#count(networkOf(address)) <= most) return false;
    if (this.#held >= maxDelayed) return true;
    this.#held += 1;
    await clock.waitUntil(clock.seconds() + delaySeconds, closed);
    this.#held -= 1;
    return true;
  }

  #count(network: string): number {
    const now = this.#options.clock.seconds();
    const found = this.#byNetwork.get(network);
    const current = found && now - found.since < windowSeconds ? found : { count: 0, since: now };
    const count = current.count + 1;
    this.#byNetwork.delete(network);
    this.#byNetwork.set(network, { count, since: current.since });
    const [oldest] = this.#byNetwork.keys();
    if (this.#byNetwork.size > maxNetworks && oldest !== undefined) this.#byNetwork.delete(oldest);
    return count;
  }
}

/**
 * Returns the network of an address: the address itself, or the first 64 bits for IPv6, since a
 * host with one such address has all that begin like it.
 *
 * @example
 * networkOf('2001:db8::7'); // '2001:db8:0:0'
 * networkOf('::ffff:192.0.2.7'); // '192.0.2.7'
 */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(address)) return address;
  const [front = [], back = []] = address
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(Math.max(0, 8 - front.length - back.length)).fill('0');
  return [...front, ...zeros, ...back].slice(0, 4).join(':').toLowerCase();
}
