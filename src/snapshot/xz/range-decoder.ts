/** A probability of one half, in the 11 bits that LZMA counts in. */
const half = 1024;
const least = 2 ** 24;

/** How many bits of a number are chosen by probabilities that are learnt as the data go by. */
export function newProbabilities(count: number): Uint16Array {
  return new Uint16Array(count).fill(half);
}

/** The arithmetic decoder of LZMA: bits out of a number that is narrowed down with each of them. */
export class RangeDecoder {
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;
  #range = 0;
  #code = 0;

  /** Begins anew with the first five bytes of a piece; false where they cannot be a beginning. */
  begin(bytes: Uint8Array): boolean {
    this.#bytes = bytes;
    this.#at = 5;
    this.#range = 0xffffffff;
    const [zero = 0, b1 = 0, b2 = 0, b3 = 0, b4 = 0] = bytes;
    this.#code = ((b1 << 24) | (b2 << 16) | (b3 << 8) | b4) >>> 0;
    return zero === 0 && bytes.length >= 5;
  }

  /** Every byte was used, none missing, and nothing is left over. */
  get isFinished(): boolean {
    return this.#at === this.#bytes.length && this.#code === 0;
  }

  bit(probabilities: Uint16Array, index: number): 0 | 1 {
    const probability = probabilities[index] ?? half;
    const bound = (this.#range >>> 11) * probability;
    let bit: 0 | 1;
    if (this.#code < bound) {
      this.#range = bound;
      probabilities[index] = probability + ((2048 - probability) >>> 5);
      bit = 0;
    } else {
      this.#range -= bound;
      this.#code -= bound;
      probabilities[index] = probability - (probability >>> 5);
      bit = 1;
    }
    if (this.#range < least) this.#refill();
    return bit;
  }

  /** Bits of even chance, the highest first. */
  direct(count: number): number {
    let value = 0;
    for (let left = count; left > 0; left -= 1) {
      this.#range >>>= 1;
      const one = this.#code >= this.#range;
      if (one) this.#code -= this.#range;
      value = value * 2 + (one ? 1 : 0);
      if (this.#range < least) this.#refill();
    }
    return value;
  }

  /** A number of `bits` bits, the highest first. */
  tree(probabilities: Uint16Array, from: number, bits: number): number {
    let node = 1;
    for (let left = bits; left > 0; left -= 1) {
      node = node * 2 + this.bit(probabilities, from + node);
    }
    return node - 2 ** bits;
  }

  /** The same, the lowest bit first. */
  reverseTree(probabilities: Uint16Array, from: number, bits: number): number {
    let node = 1;
    let value = 0;
    for (let place = 0; place < bits; place += 1) {
      const bit = this.bit(probabilities, from + node);
      node = node * 2 + bit;
      value |= bit << place;
    }
    return value;
  }

  #refill(): void {
    this.#range = (this.#range << 8) >>> 0;
    // Bytes beyond the end read as 0; `isFinished` tells of it afterwards.
    this.#code = ((this.#code << 8) | (this.#bytes[this.#at] ?? 0)) >>> 0;
    this.#at += 1;
  }
}
