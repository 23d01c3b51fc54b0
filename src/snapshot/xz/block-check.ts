import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The sum at the end of a block, counted along as the bytes come out. */
export interface BlockCheck {
  readonly length: number;
  update(bytes: Uint8Array): void;
  digest(): Uint8Array;
}

/** By the number in the stream's header; undefined: one that is not in use. */
export function newBlockCheck(number: number): BlockCheck | undefined {
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
    digest: () => words(sum),
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
    digest: () => words(~low, ~high),
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
function words(...values: readonly number[]): Uint8Array {
  return Uint8Array.from(
    values.flatMap((value) => [0, 8, 16, 24].map((by) => (value >>> by) & 255)),
  );
}
