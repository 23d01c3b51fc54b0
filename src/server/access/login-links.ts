import { randomBytes } from 'node:crypto';

/** Long enough to be opened after a break; the link stands in the terminal of its owner alone. */
const linkSeconds = 3600;
/** Who asks for more has forgotten the first. */
const maxLinks = 100;

/**
 * Links that log a browser in, each once. The code is in the fragment of the address: a browser sends
 * that to no server, so it stands in no log.
 */
export class LoginLinks {
  readonly #seconds: () => number;
  /** When each ends; oldest first. */
  readonly #codes = new Map<string, number>();

  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  /** What follows the address of the page. */
  make(): string {
    const code = randomBytes(32).toString('base64url');
    this.#codes.set(code, this.#seconds() + linkSeconds);
    const [oldest] = this.#codes.keys();
    if (this.#codes.size > maxLinks && oldest !== undefined) this.#codes.delete(oldest);
    return `/#login=${code}`;
  }

  /** Whether it opens the page: once, and not for ever. A lookup of 256 random bits leaks no part. */
  use(code: string): boolean {
    const until = this.#codes.get(code);
    this.#codes.delete(code);
    return until !== undefined && until > this.#seconds();
  }
}
