import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { MiB } from '../../units/bytes.js';
import { Dictionary, LzmaDecoder, refuseXz, type Sink } from './lzma-decoder.js';

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

/** The sum at the end of a block, counted along as the bytes come out. */
interface BlockCheck {
  readonly length: number;
  update(bytes: Uint8Array): void;
  digest(): Uint8Array;
}

/** By the number in the stream's header; undefined: one that is not in use. */
function newBlockCheck(number: number): BlockCheck | undefined {
  if (number === 0) return { length: 0, update: () => {}, digest: () => new Uint8Array(0) };
  if (number === 1) return crc32Check();
  if (number === 4) return crc64Check();
  return number === 10 ? sha256Check() : undefined;
}

function crc32Check(): BlockCheck {
  let sum = 0;
  return {
    length: 4,
    update: (bytes) => {
      sum = crc32(bytes, sum);
    },
    digest: () => wordBytes(sum),
  };
}

function sha256Check(): BlockCheck {
  const hash = createHash('sha256');
  return { length: 32, update: (bytes) => hash.update(bytes), digest: () => hash.digest() };
}

let tables: { readonly low: Int32Array; readonly high: Int32Array } | undefined;

/** CRC-64 of ECMA-182, reflected; 64 bits as two halves. */
function crc64Check(): BlockCheck {
  tables ??= crc64Tables();
  const { low: lowTable, high: highTable } = tables;
  let low = -1;
  let high = -1;
  return {
    length: 8,
    update: (bytes) => {
      for (const byte of bytes) {
        const index = (low ^ byte) & 0xff;
        low = ((low >>> 8) | (high << 24)) ^ (lowTable[index] ?? 0);
        high = (high >>> 8) ^ (highTable[index] ?? 0);
      }
    },
    digest: () => wordBytes(~low, ~high),
  };
}

function crc64Tables(): { low: Int32Array; high: Int32Array } {
  const low = new Int32Array(256);
  const high = new Int32Array(256);
  for (let index = 0; index < 256; index += 1) {
    let lower = index;
    let upper = 0;
    for (let bit = 0; bit < 8; bit += 1) {
      const odd = lower & 1;
      lower = (lower >>> 1) | (upper << 31);
      upper >>>= 1;
      if (odd) {
        lower ^= 0xd7870f42;
        upper ^= 0xc96c5795;
      }
    }
    low[index] = lower;
    high[index] = upper;
  }
  return { low, high };
}

/** Little-endian, 4 bytes each. */
function wordBytes(...values: readonly number[]): Uint8Array {
  return Uint8Array.from(
    values.flatMap((value) => [0, 8, 16, 24].map((by) => (value >>> by) & 255)),
  );
}

/** `xz` makes blocks of 24 MiB and more: so many would hold 190 GB. */
const maxBlocks = 8000;

/**
 * The bytes that must follow the blocks of a stream: their index and the footer. Both follow from
 * the blocks, so they are computed and compared, not read. They reveal a damaged byte that looks
 * like the end of the blocks.
 */
class StreamTail {
  readonly #records: number[] = [];
  #blocks = 0;

  /** `packed`: the header, the packed data and the check, without the padding. */
  addBlock(packed: number, unpacked: number): void {
    this.#blocks += 1;
    if (this.#blocks > maxBlocks) refuseXz(`it has more than ${maxBlocks} blocks`);
    this.#records.push(...variable(packed), ...variable(unpacked));
  }

  bytes(checkNumber: number): Buffer {
    const index = [0, ...variable(this.#blocks), ...this.#records];
    while (index.length % 4 !== 0) index.push(0);
    const words = (index.length + 4) / 4 - 1;
    const size = [0, 8, 16, 24].map((by) => (words >>> by) & 255);
    const about = Buffer.from([...size, 0, checkNumber]);
    return Buffer.concat([withSum(Buffer.from(index)), sumOf(about), about, Buffer.from('YZ')]);
  }
}

/** Seven bits a byte, the lowest first. */
function variable(value: number): readonly number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  return [...bytes, rest];
}

function withSum(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, sumOf(bytes)]);
}

function sumOf(bytes: Buffer): Buffer {
  const sum = Buffer.alloc(4);
  sum.writeUInt32LE(crc32(bytes));
  return sum;
}

/** `xz -9` uses 64 MiB; a larger window is seldom, and would be room for a stranger's file. */
const largestDictionary = 64 * MiB;
const lzma2 = 0x21;

/** Checks the header of a block and answers the size of its dictionary. */
function dictionarySize(header: Uint8Array): number {
  const length = header.length;
  if (!endsWithSum(header)) refuseXz('the header of a block is damaged');
  const flags = header[1] ?? 0;
  if ((flags & 0x3f) !== 0) refuseXz('it is compressed with more than LZMA2');
  let at = 2;
  if (flags & 0x40) at = skipNumber(header, at, length);
  if (flags & 0x80) at = skipNumber(header, at, length);
  if (header[at] !== lzma2 || header[at + 1] !== 1) refuseXz('it is not packed with LZMA2');
  const bits = header[at + 2] ?? 0;
  const size = (2 | (bits & 1)) * 2 ** (Math.floor(bits / 2) + 11);
  if (bits > 40 || size > largestDictionary) {
    refuseXz(`its dictionary is larger than ${largestDictionary / MiB} MiB`);
  }
  return size;
}

/** The last four bytes are the CRC-32 of those before. */
function endsWithSum(bytes: Uint8Array): boolean {
  const end = bytes.length - 4;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return end >= 0 && crc32(bytes.subarray(0, end)) === view.getUint32(end, true);
}

function skipNumber(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && at < from + 9 && (bytes[at] ?? 0) >= 0x80) at += 1;
  return at + 1;
}
