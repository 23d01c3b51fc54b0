import type { Socket } from 'node:net';
import { addressOf } from '../local/peer-credentials.js';

/**
 * Connections on which no request has shown a token yet. When there are too many, the oldest of the
 * address with the most of them is closed: strangers make room for each other, never for themselves
 * at the cost of those who are known.
 */
export class StrangerConnections {
  readonly #most: number;
  readonly #byAddress = new Map<string, Set<Socket>>();
  readonly #followed = new WeakSet<Socket>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get count(): number {
    return this.#count;
  }

  has(socket: Socket): boolean {
    return this.#byAddress.get(addressOf(socket))?.has(socket) ?? false;
  }

  /** Also one that was known for a while; it counts as the newest. */
  add(socket: Socket): void {
    if (socket.destroyed || this.has(socket)) return;
    const address = addressOf(socket);
    const ofAddress = this.#byAddress.get(address) ?? new Set<Socket>();
    this.#byAddress.set(address, ofAddress.add(socket));
    this.#count += 1;
    if (!this.#followed.has(socket)) socket.once('close', () => this.#forget(address, socket));
    this.#followed.add(socket);
    if (this.#count > this.#most) this.#closeOne();
  }

  /** A request on it came with a token, a session, or the server asks for neither. */
  isKnown(socket: Socket): void {
    this.#forget(addressOf(socket), socket);
  }

  #forget(address: string, socket: Socket): void {
    const ofAddress = this.#byAddress.get(address);
    if (ofAddress === undefined || !ofAddress.delete(socket)) return;
    this.#count -= 1;
    if (ofAddress.size === 0) this.#byAddress.delete(address);
  }

  #closeOne(): void {
    let address = '';
    let sockets = new Set<Socket>();
    // In one pass: it is done for each connection beyond the limit.
    for (const [one, ofOne] of this.#byAddress) {
      if (ofOne.size > sockets.size) [address, sockets] = [one, ofOne];
    }
    const [oldest] = sockets;
    if (oldest === undefined) return;
    this.#forget(address, oldest);
    oldest.destroy();
  }
}
