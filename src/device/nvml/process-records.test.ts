import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import {
  decodeProcessRecords,
  largestRecordBytes,
  probeStride,
  type RecordStride,
  recordStrides,
  type StrideEvidence,
  unwrittenByte,
} from './process-records.js';

const blind: StrideEvidence = {
  expected: 24,
  totalBytes: 80 * GiB,
  isRunning: () => false,
};

interface Wanted {
  readonly pid: number;
  readonly used: bigint;
  /** Of MIG; all ones outside it. */
  readonly instance: number;
}

/** Returns the bytes that a driver writes into a buffer with room for more records. */
function written(records: readonly Wanted[], stride: RecordStride): Buffer {
  const bytes = Buffer.alloc((records.length * 2 + 5) * largestRecordBytes, unwrittenByte);
  records.forEach(({ pid, used, instance }, index) => {
    const at = index * stride;
    bytes.fill(0, at, at + stride);
    bytes.writeUInt32LE(pid, at);
    bytes.writeBigUInt64LE(used, at + 8);
    if (stride >= 24) {
      bytes.writeUInt32LE(instance, at + 16);
      bytes.writeUInt32LE(instance, at + 20);
    }
  });
  return bytes;
}

const record = fc.record({
  pid: fc.integer({ min: 1, max: 4_194_304 }),
  used: fc.oneof(
    fc.bigInt({ min: 0n, max: BigInt(80 * GiB) }),
    fc.constant(0xffff_ffff_ffff_ffffn),
  ),
  instance: fc.constantFrom(0xffff_ffff, 0, 1, 7),
});

describe('probeStride', () => {
  it('finds the stride from the bytes alone, whatever was expected', () => {
    fc.assert(
      fc.property(
        fc.array(record, { minLength: 2, maxLength: 12 }),
        fc.constantFrom(...recordStrides),
        fc.constantFrom(...recordStrides),
        (records, stride, expected) => {
          const bytes = written(records, stride);
          expect(probeStride(bytes, records.length, { ...blind, expected })).toBe(stride);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('finds it by a running process where a driver wiped the whole buffer', () => {
    const records = [
      { pid: 1000, used: 1024n, instance: 0 },
      { pid: 2000, used: 2048n, instance: 0 },
    ];
    const bytes = written(records, 32);
    bytes.fill(0, 64);
    const running = new Set([1000, 2000]);
    expect(probeStride(bytes, 2, { ...blind, isRunning: (pid) => running.has(pid) })).toBe(32);
  });

  it('takes what is expected where there is nothing to go by', () => {
    expect(probeStride(Buffer.alloc(0), 0, { ...blind, expected: 16 })).toBe(16);
    expect(probeStride(Buffer.alloc(0), 3, { ...blind, expected: 16 })).toBe(16);
  });
});

describe('decodeProcessRecords', () => {
  it('reads back what was written', () => {
    fc.assert(
      fc.property(
        fc.array(record, { maxLength: 12 }),
        fc.constantFrom(...recordStrides),
        (records, stride) => {
          expect(decodeProcessRecords(written(records, stride), records.length, stride)).toEqual(
            records.map(({ pid, used }) => ({
              pid,
              usedBytes: used === 0xffff_ffff_ffff_ffffn ? 'unknown' : Number(used),
            })),
          );
        },
      ),
    );
  });

  it('stays inside the bytes and makes no figure up, whatever is in them', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 400 }),
        fc.nat(1000),
        fc.constantFrom(...recordStrides),
        (bytes, count, expected) => {
          const stride = probeStride(bytes, count, { ...blind, expected });
          for (const { pid, usedBytes } of decodeProcessRecords(bytes, count, stride)) {
            expect(pid).toBeGreaterThan(0);
            expect(usedBytes === 'unknown' || Number.isSafeInteger(usedBytes)).toBe(true);
          }
        },
      ),
    );
  });
});
