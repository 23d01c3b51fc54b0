import { Failure } from '../../failure.js';

/** Lengths come in three classes: near, middle, far. */
class LengthDecoder {
  readonly #choice = newProbabilities(2);
  readonly #low = newProbabilities(16 * 8);
  readonly #middle = newProbabilities(16 * 8);
  readonly #high = newProbabilities(256);

  read(range: RangeDecoder, position: number): number {
    if (range.bit(this.#choice, 0) === 0) return range.tree(this.#low, position * 8, 3) + 2;
    if (range.bit(this.#choice, 1) === 0) return range.tree(this.#middle, position * 8, 3) + 10;
    return range.tree(this.#high, 0, 8) + 18;
  }
}

/** LZMA as it stands inside of LZMA2: bytes, and repetitions of earlier bytes. */
export class LzmaDecoder {
  readonly #range = new RangeDecoder();
  readonly #dictionary: Dictionary;
  #contextBits = 3;
  #contextMask = 0;
  #positionMask = 3;
  #state = 0;
  #distances: [number, number, number, number] = [1, 1, 1, 1];
  #isMatch = newProbabilities(0);
  #isRepeat = newProbabilities(0);
  #isRepeat0 = newProbabilities(0);
  #isRepeat0Long = newProbabilities(0);
  #isRepeat1 = newProbabilities(0);
  #isRepeat2 = newProbabilities(0);
  #slots = newProbabilities(0);
  #places = newProbabilities(0);
  #align = newProbabilities(0);
  #literals = newProbabilities(0);
  #matchLength = new LengthDecoder();
  #repeatLength = new LengthDecoder();

  constructor(dictionary: Dictionary) {
    this.#dictionary = dictionary;
  }

  /** Sets the three numbers that say how contexts are made, packed into one byte. */
  setProperties(byte: number): void {
    const contextBits = byte % 9;
    const literalPositionBits = Math.floor(byte / 9) % 5;
    const positionBits = Math.floor(byte / 45);
    if (positionBits > 4 || contextBits + literalPositionBits > 4) {
      refuseXz('its settings are impossible');
    }
    this.#contextBits = contextBits;
    this.#contextMask = 2 ** literalPositionBits - 1;
    this.#positionMask = 2 ** positionBits - 1;
    this.#literals = newProbabilities(0x300 * 2 ** (contextBits + literalPositionBits));
    this.resetState();
  }

  resetState(): void {
    this.#state = 0;
    this.#distances = [1, 1, 1, 1];
    this.#isMatch = newProbabilities(12 * 16);
    this.#isRepeat = newProbabilities(12);
    this.#isRepeat0 = newProbabilities(12);
    this.#isRepeat0Long = newProbabilities(12 * 16);
    this.#isRepeat1 = newProbabilities(12);
    this.#isRepeat2 = newProbabilities(12);
    this.#slots = newProbabilities(4 * 64);
    this.#places = newProbabilities(128);
    this.#align = newProbabilities(16);
    this.#literals.fill(1024);
    this.#matchLength = new LengthDecoder();
    this.#repeatLength = new LengthDecoder();
  }

  /** Decodes one chunk, which holds exactly `size` bytes. */
  decode(chunk: Uint8Array, size: number): void {
    const range = this.#range;
    const dictionary = this.#dictionary;
    if (!range.begin(chunk)) refuseXz('a chunk begins wrongly');
    const end = dictionary.total + size;
    while (dictionary.total < end) {
      const position = dictionary.total & this.#positionMask;
      if (range.bit(this.#isMatch, this.#state * 16 + position) === 0) {
        this.#literal();
        continue;
      }
      const length =
        range.bit(this.#isRepeat, this.#state) === 0
          ? this.#match(position)
          : this.#repetition(position);
      if (dictionary.total + length > end) refuseXz('a chunk holds more than it says');
      dictionary.repeat(this.#distances[0], length);
    }
    if (!range.isFinished) refuseXz('a chunk is longer or shorter than it says');
  }

  #literal(): void {
    const dictionary = this.#dictionary;
    const before = dictionary.total === 0 ? 0 : dictionary.back(1);
    const place =
      ((dictionary.total & this.#contextMask) << this.#contextBits) +
      (before >>> (8 - this.#contextBits));
    const from = place * 0x300;
    const range = this.#range;
    let symbol = 1;
    if (this.#state >= 7) {
      let matched = dictionary.back(this.#distances[0]);
      while (symbol < 0x100) {
        const expected = (matched >>> 7) & 1;
        matched <<= 1;
        const bit = range.bit(this.#literals, from + ((1 + expected) << 8) + symbol);
        symbol = symbol * 2 + bit;
        if (bit !== expected) break;
      }
    }
    while (symbol < 0x100) symbol = symbol * 2 + range.bit(this.#literals, from + symbol);
    dictionary.put(symbol & 0xff);
    this.#state = this.#state < 4 ? 0 : this.#state < 10 ? this.#state - 3 : this.#state - 6;
  }

  #match(position: number): number {
    const range = this.#range;
    const length = this.#matchLength.read(range, position);
    const slot = range.tree(this.#slots, Math.min(length - 2, 3) * 64, 6);
    let distance = slot;
    if (slot >= 4) {
      const bits = (slot >>> 1) - 1;
      const base = (2 | (slot & 1)) * 2 ** bits;
      distance =
        slot < 14
          ? base + range.reverseTree(this.#places, base - slot, bits)
          : base + range.direct(bits - 4) * 16 + range.reverseTree(this.#align, 0, 4);
    }
    const [first, second, third] = this.#distances;
    this.#distances = [distance + 1, first, second, third];
    this.#state = this.#state < 7 ? 7 : 10;
    return length;
  }

  #repetition(position: number): number {
    const range = this.#range;
    const [first, second, third, fourth] = this.#distances;
    if (range.bit(this.#isRepeat0, this.#state) === 0) {
      if (range.bit(this.#isRepeat0Long, this.#state * 16 + position) === 0) {
        this.#state = this.#state < 7 ? 9 : 11;
        return 1;
      }
    } else if (range.bit(this.#isRepeat1, this.#state) === 0) {
      this.#distances = [second, first, third, fourth];
    } else if (range.bit(this.#isRepeat2, this.#state) === 0) {
      this.#distances = [third, first, second, fourth];
    } else {
      this.#distances = [fourth, first, second, third];
    }
    this.#state = this.#state < 7 ? 8 : 11;
    return this.#repeatLength.read(range, position);
  }
}

/** A probability of one half, in the 11 bits that LZMA counts in. */
const half = 1024;
const least = 2 ** 24;

/** How many bits of a number are chosen by probabilities that are learnt as the data go by. */
function newProbabilities(count: number): Uint16Array {
  return new Uint16Array(count).fill(half);
}

/** The arithmetic decoder of LZMA: bits out of a number that is narrowed down with each of them. */
class RangeDecoder {
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

/** Takes what comes out; false: no more is wanted. */
export type Sink = (bytes: Uint8Array) => boolean;

/** The latest bytes that came out, which what follows may repeat. */
export class Dictionary {
  readonly #bytes: Uint8Array;
  #at = 0;
  #sent = 0;
  #total = 0;
  readonly #sink: (bytes: Uint8Array) => void;

  constructor(size: number, sink: (bytes: Uint8Array) => void) {
    this.#bytes = new Uint8Array(size);
    this.#sink = sink;
  }

  /** Bytes since the last reset. */
  get total(): number {
    return this.#total;
  }

  reset(): void {
    this.flush();
    this.#total = 0;
  }

  put(byte: number): void {
    this.#bytes[this.#at] = byte;
    this.#at += 1;
    this.#total += 1;
    if (this.#at === this.#bytes.length) this.#wrap();
  }

  /** The byte that came out `distance` bytes ago; 1 is the last. */
  back(distance: number): number {
    const at = this.#at - distance;
    return this.#bytes[at < 0 ? at + this.#bytes.length : at] ?? 0;
  }

  /** Says again what came `distance` bytes ago; it may run into what it just said. */
  repeat(distance: number, length: number): void {
    if (distance > this.#total || distance > this.#bytes.length) {
      refuseXz('it repeats what it never said');
    }
    const bytes = this.#bytes;
    let from = this.#at - distance;
    if (from < 0) from += bytes.length;
    for (let left = length; left > 0; left -= 1) {
      this.put(bytes[from] ?? 0);
      from += 1;
      if (from === bytes.length) from = 0;
    }
  }

  /** Hands on what was not handed on yet. */
  flush(): void {
    if (this.#at > this.#sent) this.#sink(this.#bytes.subarray(this.#sent, this.#at));
    this.#sent = this.#at;
  }

  #wrap(): void {
    this.flush();
    this.#at = 0;
    this.#sent = 0;
  }
}

/** The archive is damaged, or made in a way that is not read. */
export function refuseXz(why: string): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-archive',
    fact: `The xz data cannot be read: ${why}.`,
    next: 'Copy the file again, or unpack it with xz -d and name the unpacked file.',
  });
}
