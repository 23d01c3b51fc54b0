import { crc32 } from 'node:zlib';
import { refuseXz } from './bad-xz.js';

/** `xz` makes blocks of 24 MiB and more: so many would hold 190 GB. */
const maxBlocks = 8000;

/**
 * What must stand behind the blocks of a stream: their index and the footer. Both follow from what
 * the blocks were, so they are made here and compared, not read. A damaged byte that looks like the
 * end of the blocks is found out by it.
 */
export class StreamTail {
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
