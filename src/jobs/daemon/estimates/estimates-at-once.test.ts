import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../../units/bytes.js';
import { fakeDevice, memory } from '../../../watch/fake-device-for-tests.js';
import { estimatesAtOnce, estimatingHost } from './estimates-at-once.js';

const on = (cores: number, gibibytes: number) =>
  estimatesAtOnce({ cores, memoryBytes: gibibytes * GiB });

describe('estimatesAtOnce', () => {
  it.each([
    [1, 2, 2],
    [2, 23, 2],
    [4, 64, 2],
    [6, 64, 4],
    [8, 64, 5],
    [8, 16, 2],
    [16, 24, 4],
    [16, 128, 8],
    [192, 2048, 8],
  ])('on %i cores with %i GiB: %i', (cores, gibibytes, expected) => {
    expect(on(cores, gibibytes)).toBe(expected);
  });

  it('takes the least where the memory is unknown', () => {
    expect(estimatesAtOnce({ cores: 64, memoryBytes: 'unknown' })).toBe(2);
  });

  it('is 2 to 8, leaves a core and most of the memory free beyond 2, and never falls with more', () => {
    const cores = fc.integer({ min: 1, max: 512 });
    const gibibytes = fc.double({ min: 0.1, max: 4096, noNaN: true });
    fc.assert(
      fc.property(cores, gibibytes, cores, gibibytes, (c, g, moreCores, moreMemory) => {
        const count = on(c, g);
        expect(Number.isInteger(count)).toBe(true);
        expect(count).toBeGreaterThanOrEqual(2);
        expect(count).toBeLessThanOrEqual(8);
        if (count > 2) {
          expect(count).toBeLessThan(c);
          expect(count * 1.5).toBeLessThanOrEqual(g / 4);
        }
        expect(on(c + moreCores, g + moreMemory)).toBeGreaterThanOrEqual(count);
      }),
    );
  });
});

describe('estimating host', () => {
  it('has the cores of this machine, and the memory that the host device tells', async () => {
    const gpu = fakeDevice({ id: 'gpu:0', read: () => memory(0, 80 * GiB) });
    const host = fakeDevice({ id: 'host', kind: 'host', read: () => memory(0, 64 * GiB) });
    const found = await estimatingHost({ devices: [gpu, host] });
    expect(found.memoryBytes).toBe(64 * GiB);
    expect(found.cores).toBeGreaterThanOrEqual(1);
    expect((await estimatingHost({ devices: [gpu] })).memoryBytes).toBe('unknown');
  });
});
