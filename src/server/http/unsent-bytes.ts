import type { IncomingMessage, ServerResponse } from 'node:http';
import { whenAnswered } from './when-answered.js';

/** Smaller answers fit the buffers of a connection. */
const smallBytes = 16 * 1024;

interface Unsent {
  readonly bytes: number;
  readonly incoming: IncomingMessage;
}

/** Large answers that slow clients have not taken yet: together they must not fill the memory. */
export class UnsentBytes {
  readonly #most: number;
  /** Oldest first. */
  readonly #answers = new Set<Unsent>();
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get isTooMuch(): boolean {
    return this.#bytes > this.#most;
  }

  count(
    bytes: number,
    { incoming, outgoing }: { incoming: IncomingMessage; outgoing: ServerResponse },
  ): void {
    if (bytes <= smallBytes) return;
    const answer = { bytes, incoming };
    this.#answers.add(answer);
    this.#bytes += bytes;
    whenAnswered(incoming, outgoing, () => this.#remove(answer));
  }

  /** Closes the connections of those who wait longest until the rest is below the limit. */
  cutOldest(): void {
    for (const answer of this.#answers) {
      if (!this.isTooMuch) return;
      this.#remove(answer);
      answer.incoming.socket.destroy();
    }
  }

  #remove(answer: Unsent): void {
    if (this.#answers.delete(answer)) this.#bytes -= answer.bytes;
  }
}
