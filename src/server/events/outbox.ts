import type { EventBytes } from './event-bytes.js';

/** Where bytes go: a response that says when it is full, and when it is not any more. */
export interface Sink {
  /** False: take no more until `drained` is called. */
  write(bytes: EventBytes): boolean;
}

/** Of these only the latest counts: a slow client loses the ones between. */
export type LatestKind = 'devices' | 'queue';

/**
 * What waits for one client. Changes of jobs wait in order and all arrive, or the client is cut off;
 * readings wait as the latest of their kind.
 */
export class Outbox {
  readonly #sink: Sink;
  readonly #maxBytes: number;
  readonly #waiting: EventBytes[] = [];
  readonly #latest = new Map<LatestKind, EventBytes>();
  #waitingBytes = 0;
  #isFull = false;

  constructor(sink: Sink, maxBytes: number) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** False: too much has piled up, the client must go. */
  send(bytes: EventBytes): boolean {
    if (!this.#isFull) {
      this.#write(bytes);
      return true;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    return this.#waitingBytes <= this.#maxBytes;
  }

  sendLatest(kind: LatestKind, bytes: EventBytes): void {
    if (this.#isFull) this.#latest.set(kind, bytes);
    else this.#write(bytes);
  }

  drained(): void {
    this.#isFull = false;
    let sent = 0;
    for (const bytes of this.#waiting) {
      if (this.#isFull) break;
      this.#write(bytes);
      this.#waitingBytes -= bytes.length;
      sent += 1;
    }
    this.#waiting.splice(0, sent);
    for (const [kind, bytes] of this.#latest) {
      if (this.#isFull) return;
      this.#latest.delete(kind);
      this.#write(bytes);
    }
  }

  #write(bytes: EventBytes): void {
    if (!this.#sink.write(bytes)) this.#isFull = true;
  }
}
