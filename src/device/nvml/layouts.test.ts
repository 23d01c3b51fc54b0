import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memoryV1, memoryV2, readBytes64, readCString } from './layouts.js';

describe('readBytes64', () => {
  it('reads every count up to 2^53 exactly, and calls more unknown', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (value) => {
        const view = new DataView(new ArrayBuffer(16));
        view.setBigUint64(8, value, true);
        expect(readBytes64(view, 8)).toBe(value < 2n ** 53n ? Number(value) : 'unknown');
      }),
    );
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, 2n ** 53n - 1n, true);
    expect(readBytes64(view, 0)).toBe(Number.MAX_SAFE_INTEGER);
    view.setBigUint64(0, 2n ** 53n, true);
    expect(readBytes64(view, 0)).toBe('unknown');
  });
});

describe('memory layouts', () => {
  it('carry their own size in the version of the record, as NVML asks', () => {
    expect(memoryV2.version).toBe(memoryV2.sizeBytes | (2 << 24));
    expect(memoryV1.version).toBe(0);
  });

  it('keep every figure inside the record', () => {
    for (const { sizeBytes, total, free, used } of [memoryV1, memoryV2]) {
      expect(Math.max(total, free, used) + 8).toBe(sizeBytes);
    }
  });
});

describe('readCString', () => {
  it('ends at the zero, or with the field', () => {
    expect(readCString(Buffer.from('NVIDIA H200\0left over'))).toBe('NVIDIA H200');
    expect(readCString(Buffer.from('full'))).toBe('full');
    expect(readCString(Buffer.from('\0'))).toBe('');
  });
});
