import { refuseXz } from './bad-xz.js';
import type { Dictionary } from './dictionary.js';
import { newProbabilities, RangeDecoder } from './range-decoder.js';

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
