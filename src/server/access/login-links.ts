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
  /** Whom each logs in, and when it ends; oldest first. */
  readonly #codes = new Map<string, { readonly subject: string; readonly until: number }>();

  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  /** What follows the address of the page; `subject` as in `People`. */
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
