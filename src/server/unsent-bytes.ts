import type { ServerResponse } from 'node:http';
import { serverLimits } from './limits.js';

/** Smaller answers fit the buffers of a connection. */
const smallBytes = 16 * 1024;

/** Large answers that slow clients have not taken yet: together they must not fill the memory. */
export class UnsentBytes {
  #bytes = 0;

  get isTooMuch(): boolean {
    return this.#bytes > serverLimits.unsentBytes;
  }

  count(bytes: number, outgoing: ServerResponse): void {
    if (bytes <= smallBytes || outgoing.destroyed) return;
    this.#bytes += bytes;
    outgoing.once('close', () => {
      this.#bytes -= bytes;
    });
  }
}
