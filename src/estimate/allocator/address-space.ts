import { DriverAddresses } from './driver-addresses.js';
import type { AddressOrder } from './settings.js';

/** Where segments lie. Only the order of addresses matters, not where zero is. */
export interface AddressSpace {
  /** The address of a new range of `bytes`. */
  take(bytes: number): number;
  give(address: number, bytes: number): void;
  /** The first kernel of the process runs, where it was a fresh one until now. */
  runFirstKernel(): void;
  /** One in the same state, which from now on goes its own way. */
  copy(): AddressSpace;
}

export function addressSpaceFor(order: AddressOrder): AddressSpace {
  if (order === 'driver') return new DriverAddresses('after-kernels');
  if (order === 'fresh-driver') return new DriverAddresses('fresh');
  return new StraightAddresses(order === 'falling' ? -1 : 1);
}

/** Addresses are never used again: each new range lies beyond all earlier ones. */
class StraightAddresses implements AddressSpace {
  #edge = 0;
  readonly #direction: 1 | -1;

  constructor(direction: 1 | -1) {
    this.#direction = direction;
  }

  take(bytes: number): number {
    const start = this.#direction === 1 ? this.#edge : this.#edge - bytes;
    this.#edge += this.#direction * bytes;
    return start;
  }

  give(): void {}

  runFirstKernel(): void {}

  copy(): AddressSpace {
    const made = new StraightAddresses(this.#direction);
    made.#edge = this.#edge;
    return made;
  }
}
