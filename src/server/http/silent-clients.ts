import type { IncomingMessage, ServerResponse } from 'node:http';

/** A request and its answer, as far as it tells who waits for whom. */
export interface Exchange {
  readonly incoming: Pick<IncomingMessage, 'complete'>;
  readonly outgoing: Pick<ServerResponse, 'writableLength' | 'writableEnded' | 'headersSent'>;
}

/**
 * Whether a silent connection waits for its client: to ask, to send the rest of a request, or to take
 * what it was answered. Where it does not, the answer is still being made, which may take minutes, or
 * it is an event stream on which nothing happens: such silence is ours.
 */
export function waitsForClient(oldest: Exchange | undefined): boolean {
  if (oldest === undefined) return true;
  const { incoming, outgoing } = oldest;
  return !incoming.complete || outgoing.writableLength > 0 || outgoing.writableEnded;
}

/** What is under way on each connection, in the order in which it was asked: answers keep to it. */
export class Exchanges<E extends Exchange> {
  readonly #bySocket = new WeakMap<object, Set<E>>();

  add(socket: object, exchange: E): void {
    const known = this.#bySocket.get(socket);
    if (known === undefined) this.#bySocket.set(socket, new Set([exchange]));
    else known.add(exchange);
  }

  remove(socket: object, exchange: E): void {
    this.#bySocket.get(socket)?.delete(exchange);
  }

  count(socket: object): number {
    return this.#bySocket.get(socket)?.size ?? 0;
  }

  oldest(socket: object): E | undefined {
    const [first] = this.#bySocket.get(socket) ?? [];
    return first;
  }

  /** The head of an answer is out: nothing else may be written between. */
  isAnswering(socket: object): boolean {
    return this.oldest(socket)?.outgoing.headersSent ?? false;
  }
}
