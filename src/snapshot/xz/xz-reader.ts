import { refuseXz } from './bad-xz.js';
import { type BlockCheck, newBlockCheck } from './block-check.js';
import { dictionarySize, endsWithSum } from './block-header.js';
import { Dictionary, type Sink } from './dictionary.js';
import { LzmaDecoder } from './lzma-decoder.js';
import { StreamTail } from './stream-tail.js';

type Step = 'stream-header' | 'block' | 'chunk' | 'padding' | 'check' | 'done';

const magic = 'fd377a585a00';

/** The longest thing that must lie here whole: a chunk of LZMA2 with its head. */
const longestPart = 6 + 2 ** 16;

/**
 * Unpacks .xz as `xz` makes it, piece by piece: Node brings no LZMA, and a machine may have no `xz`.
 * Memory is the dictionary (8 MiB as a rule) and one chunk.
 *
 * @example
 * const reader = new XzReader((bytes) => { parts.push(bytes.slice()); return true; });
 * reader.push(packed);
 * reader.end();
 */
export class XzReader {
  readonly #sink: Sink;
  #waiting = new Uint8Array(2 * longestPart);
  #filled = 0;
  #step: Step = 'stream-header';
  #checkNumber = 0;
  #check: BlockCheck | undefined;
  #dictionary = new Dictionary(0, () => {});
  #decoder = new LzmaDecoder(this.#dictionary);
  readonly #tail = new StreamTail();
  #headerBytes = 0;
  /** Bytes of the block's packed data so far; they are filled up to a multiple of four. */
  #packed = 0;
  #padding = 0;
  #unpacked = 0;
  #needsReset = true;
  #needsProperties = true;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  get isDone(): boolean {
    return this.#step === 'done';
  }

  push(bytes: Uint8Array): void {
    let rest = bytes;
    while (rest.length > 0 && this.#step !== 'done') {
      const count = Math.min(this.#waiting.length - this.#filled, rest.length);
      this.#waiting.set(rest.subarray(0, count), this.#filled);
      this.#filled += count;
      rest = rest.subarray(count);
      this.#work();
    }
  }

  end(): void {
    if (this.#step !== 'done') refuseXz('it ends too early');
  }

  /** Takes parts off the front as long as a whole one lies there. */
  #work(): void {
    let at = 0;
    while (this.#step !== 'done') {
      const part = this.#waiting.subarray(at, this.#filled);
      const length = part.length === 0 ? undefined : this.#partLength(part);
      if (length === undefined || length > part.length) break;
      this.#take(part.subarray(0, length));
      at += length;
    }
    this.#waiting.copyWithin(0, at, this.#filled);
    this.#filled -= at;
  }

  /** How long the part at hand is; undefined: too little of it is here to tell. */
  #partLength(part: Uint8Array): number | undefined {
    const [first = 0] = part;
    switch (this.#step) {
      case 'stream-header':
        return 12;
      case 'block':
        return first === 0 ? this.#tail.bytes(this.#checkNumber).length : (first + 1) * 4;
      case 'chunk':
        if (first === 0) return 1;
        if (part.length < 6) return undefined;
        if (first < 0x80) return 3 + word(part, 1);
        return (first >= 0xc0 ? 6 : 5) + word(part, 3);
      case 'padding':
        return (this.#packed + this.#padding) % 4 === 0 ? 0 : 1;
      case 'check':
        return this.#check?.length ?? 0;
      case 'done':
      default:
        return undefined;
    }
  }

  #take(part: Uint8Array): void {
    switch (this.#step) {
      case 'stream-header':
        this.#streamHeader(part);
        break;
      case 'block':
        this.#blockHeader(part);
        break;
      case 'chunk':
        this.#packed += part.length;
        this.#chunk(part);
        break;
      case 'padding':
        this.#padding += part.length;
        if (part.length === 0) this.#step = 'check';
        else if (part[0] !== 0) refuseXz('its padding is not empty');
        break;
      case 'check':
        if (this.#check && !Buffer.from(part).equals(this.#check.digest())) {
          refuseXz('its check sum does not fit what it holds');
        }
        this.#tail.addBlock(this.#headerBytes + this.#packed + part.length, this.#unpacked);
        this.#step = 'block';
        break;
      case 'done':
    }
  }

  #streamHeader(part: Uint8Array): void {
    this.#checkNumber = part[7] ?? 0;
    if (Buffer.from(part.subarray(0, 6)).toString('hex') !== magic) refuseXz('it is not xz');
    if (part[6] !== 0 || !endsWithSum(part.subarray(6))) refuseXz('its header is damaged');
    if (newBlockCheck(this.#checkNumber) === undefined)
      refuseXz('its check sum is of no known kind');
    this.#step = 'block';
  }

  #blockHeader(part: Uint8Array): void {
    // A block never begins with 0: the index of the blocks does.
    if (part[0] === 0) {
      if (!this.#tail.bytes(this.#checkNumber).equals(part)) {
        refuseXz('its index does not fit its blocks');
      }
      this.#step = 'done';
      return;
    }
    const check = newBlockCheck(this.#checkNumber);
    this.#check = check;
    this.#dictionary = new Dictionary(dictionarySize(part), (bytes) => {
      check?.update(bytes);
      this.#unpacked += bytes.length;
      if (!this.#sink(bytes)) this.#step = 'done';
    });
    this.#decoder = new LzmaDecoder(this.#dictionary);
    this.#headerBytes = part.length;
    this.#packed = 0;
    this.#padding = 0;
    this.#unpacked = 0;
    this.#needsReset = true;
    this.#needsProperties = true;
    this.#step = 'chunk';
  }

  #chunk(part: Uint8Array): void {
    const [control = 0] = part;
    if (control === 0) {
      this.#step = 'padding';
      return;
    }
    const isPlain = control < 0x80;
    if (isPlain && control > 2) refuseXz('a chunk is of no known kind');
    if (control === 1 || control >= 0xe0) {
      this.#dictionary.reset();
      this.#needsReset = false;
    }
    if (this.#needsReset) refuseXz('it begins without an empty dictionary');
    if (isPlain) {
      for (const byte of part.subarray(3)) this.#dictionary.put(byte);
    } else {
      this.#compressed(control, part);
    }
    this.#dictionary.flush();
  }

  #compressed(control: number, part: Uint8Array): void {
    const size = (control & 0x1f) * 2 ** 16 + word(part, 1);
    if (control >= 0xc0) {
      this.#decoder.setProperties(part[5] ?? 0);
      this.#needsProperties = false;
    } else if (this.#needsProperties) {
      refuseXz('it begins without its settings');
    } else if (control >= 0xa0) {
      this.#decoder.resetState();
    }
    this.#decoder.decode(part.subarray(control >= 0xc0 ? 6 : 5), size);
  }
}

/** Two bytes, the higher first, and one: sizes are written less one. */
function word(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) * 256 + (bytes[at + 1] ?? 0) + 1;
}
