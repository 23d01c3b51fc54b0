import { serverLimits } from '../http/limits.js';

/** Bodies that are still coming in, all together: those who send slowly hold what they sent. */
export class IncomingBytes {
  #bytes = 0;

  get isTooMuch(): boolean {
    return this.#bytes > serverLimits.incomingBodyBytes;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
  }
}
