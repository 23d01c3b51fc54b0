import { createHmac, randomBytes } from 'node:crypto';
import { isSameSecret } from './token.js';

/** A working week; then the page asks for the token again. */
const sessionSeconds = 7 * 24 * 3600;
/** Those who said goodbye. The oldest are forgotten first; their cookies are gone from the browser. */
const maxEnded = 10_000;

/** One that was found to be true. */
export interface Session {
  readonly value: string;
  /** Whose it is, as in `People`. */
  readonly subject: string;
  readonly untilMs: number;
}

/**
 * Sessions of browsers, which cannot send a token with an event stream. A session is its end and a
 * signature that only the token makes, so it outlives a restart of the server and nothing is kept. That
 * of a user is signed with the hash of his token, too: with a new token, or without him, it ends.
 */
export class Sessions {
  readonly #token: string;
  readonly #secretOf: (subject: string) => string | undefined;
  readonly #epochMs: () => number;
  readonly #ended = new Set<string>();
  readonly cookieName: string;

  constructor(options: {
    token: string;
    epochMs: () => number;
    /** Of somebody beside the owner; undefined where no user has that subject. */
    secretOf?: (subject: string) => string | undefined;
  }) {
    this.#token = options.token;
    this.#secretOf = options.secretOf ?? (() => undefined);
    this.#epochMs = options.epochMs;
    // Cookies know no ports: the name keeps two servers on one host apart.
    this.cookieName = `plimsoll_session_${this.#sign('name').slice(0, 8)}`;
  }

  /** The value of `Set-Cookie`; `overTls` keeps it from being sent in the clear later. */
  open(overTls: boolean, subject = ''): string {
    const until = Math.floor(this.#epochMs() / 1000) + sessionSeconds;
    const whose = subject === '' ? '' : `.${Buffer.from(subject).toString('base64url')}`;
    const body = `${until}.${randomBytes(16).toString('base64url')}${whose}`;
    const signature = this.#signature(body, subject) ?? '';
    const cookie = this.#cookie(`${body}.${signature}`, sessionSeconds);
    return overTls ? `${cookie}; Secure` : cookie;
  }

  /** Ends the session of a request, and answers the `Set-Cookie` that takes it from the browser. */
  end(cookies: string | undefined): string {
    const session = this.find(cookies);
    if (session !== undefined) {
      this.#ended.add(session.value);
      const [oldest] = this.#ended;
      if (this.#ended.size > maxEnded && oldest !== undefined) this.#ended.delete(oldest);
    }
    return this.#cookie('', 0);
  }

  /** The session of a request, where it is a true one and open. */
  find(cookies: string | undefined): Session | undefined {
    const value = this.#valueIn(cookies) ?? '';
    const match = /^((\d{1,12})\.[\w-]{22}(?:\.([\w-]{1,100}))?)\.([\w-]{43})$/.exec(value);
    if (!match) return undefined;
    const [, body = '', until = '', whose = '', signature = ''] = match;
    const subject = Buffer.from(whose, 'base64url').toString();
    const expected = this.#signature(body, subject);
    if (expected === undefined || !isSameSecret(signature, expected)) return undefined;
    const session = { value, subject, untilMs: Number(until) * 1000 };
    return this.isOpen(session) ? session : undefined;
  }

  /** Whether one that was found is still open. */
  isOpen({ value, untilMs }: Session): boolean {
    return !this.#ended.has(value) && untilMs > this.#epochMs();
  }

  /** Undefined where no user has that subject. */
  #signature(body: string, subject: string): string | undefined {
    const secret = subject === '' ? '' : this.#secretOf(subject);
    if (secret === undefined) return undefined;
    return this.#sign(`session ${body}${secret === '' ? '' : ` ${secret}`}`);
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#token).update(text).digest('base64url');
  }

  #valueIn(cookies: string | undefined): string | undefined {
    const prefix = `${this.cookieName}=`;
    return cookies
      ?.split(/; */)
      .find((cookie) => cookie.startsWith(prefix))
      ?.slice(prefix.length);
  }

  #cookie(value: string, seconds: number): string {
    return `${this.cookieName}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}`;
  }
}
