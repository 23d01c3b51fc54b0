import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { readTrace } from './trace-file.js';
import { tracedInterval } from './trace-interval.js';
import { pieces } from './traces-for-tests.js';

/** A thousand requests, so many of them scratch memory that is given back. */
const traceWith = (scratch: number, footer = '', largest = 4096) =>
  readTrace(
    pieces(
      [
        '{"plimsoll":"trace","version":1,"torch":"2.11.0"}',
        '["s",0,""]',
        ...Array.from({ length: 1000 }, (_, at) => {
          const isScratch = at < scratch;
          const asked = `["a",${at + 1},4096,0,0,"${isScratch ? 'k' : 'x'}"]`;
          return isScratch ? `${asked}\n["f",${at + 1}]` : asked;
        }),
        '["m","ready"]',
        `["a",1999,${largest},0,0,"x"]`,
        '["a",2000,33554432,0,0,"k"]',
        `{"end":true,"parameters":1,"parameterBytes":4,"notes":[]${footer}}`,
      ].join('\n'),
    ),
  );

const plain = await traceWith(0);
const peaks = { reservedBytes: 10 * GiB, allocatedBytes: 8 * GiB, otherRuns: [] };

describe('tracedInterval', () => {
  it('is narrow where kernels have no scratch memory of their own, or hardly any', async () => {
    const expected = { lowBytes: 0.99 * 10 * GiB, highBytes: 1.01 * 10 * GiB, confidence: 0.95 };
    for (const trace of [plain, await traceWith(4)]) {
      const { lowBytes, highBytes, confidence } = tracedInterval(trace, peaks, true);
      expect(lowBytes).toBeCloseTo(expected.lowBytes, -1);
      expect(highBytes).toBeCloseTo(expected.highBytes, -1);
      expect(confidence).toBe(0.95);
    }
  });

  it('is wider for a program as it is, and reaches below what it seems to allocate', () => {
    const program = { ...plain, program: true };
    const { lowBytes, highBytes } = tracedInterval(program, peaks, true);
    expect(lowBytes).toBeCloseTo(0.975 * 10 * GiB, -1);
    expect(highBytes).toBeCloseTo(1.051 * 10 * GiB, -1);
    const near = { ...peaks, allocatedBytes: 9.98 * GiB };
    expect(tracedInterval(program, near, true).lowBytes).toBeCloseTo(0.975 * 10 * GiB, -1);
    expect(tracedInterval({ ...program, convolutions: 20 }, peaks, false).highBytes).toBeCloseTo(
      1.22 * 10 * GiB,
      -1,
    );
  });

  it('is wider where many have, and wider still for a card that was not traced', async () => {
    const many = tracedInterval(await traceWith(20), peaks, true);
    const elsewhere = tracedInterval(plain, peaks, false);
    expect(many.highBytes).toBeCloseTo(1.015 * 10 * GiB, -1);
    expect(elsewhere.highBytes).toBeCloseTo(1.05 * 10 * GiB, -1);
  });

  it('is widest for convolutions on a card that was not measured, with workspaces or without', async () => {
    expect(tracedInterval({ ...plain, convolutions: 4 }, peaks, false).highBytes).toBeCloseTo(
      1.05 * 10 * GiB,
      -1,
    );
    const { lowBytes, highBytes } = tracedInterval({ ...plain, convolutions: 20 }, peaks, false);
    expect(lowBytes).toBeCloseTo(0.9 * 10 * GiB, -1);
    expect(highBytes).toBeCloseTo(1.22 * 10 * GiB, -1);
  });

  it('reaches below what is allocated where convolutions of another card may have other workspaces', () => {
    const near = { ...peaks, allocatedBytes: Math.round(9.8 * GiB) };
    const low = (convolutions: number, sameCard: boolean) =>
      tracedInterval({ ...plain, convolutions }, near, sameCard).lowBytes;
    expect(low(20, false)).toBeCloseTo(0.9 * 10 * GiB, -1);
    expect(low(20, true)).toBeCloseTo(0.99 * 10 * GiB, -1);
    expect(low(4, false)).toBe(near.allocatedBytes);
  });

  it('does not reach beyond what the card has, nor below the estimate', () => {
    const high = (roomBytes: number) =>
      tracedInterval({ ...plain, convolutions: 20 }, { ...peaks, roomBytes }, false).highBytes;
    expect(high(11 * GiB)).toBe(11 * GiB);
    expect(high(9 * GiB)).toBe(10 * GiB);
  });

  it('holds every order that segments may lie in', () => {
    const otherRuns = [9 * GiB, 12 * GiB];
    const { lowBytes, highBytes } = tracedInterval(plain, { ...peaks, otherRuns }, true);
    expect(lowBytes).toBeLessThan(9 * GiB);
    expect(highBytes).toBeGreaterThan(12 * GiB);
  });

  it('reaches lower for a model that leaves out layers at random', async () => {
    const skipping = await traceWith(0, ',"skipsLayers":true');
    const near = { ...peaks, allocatedBytes: 9.8 * GiB };
    const { lowBytes, highBytes } = tracedInterval(skipping, near, true);
    expect(lowBytes).toBeCloseTo(0.91 * 10 * GiB, -1);
    expect(highBytes).toBeCloseTo(1.03 * 10 * GiB, -1);
    expect(tracedInterval(plain, near, true).lowBytes).toBeGreaterThanOrEqual(9.8 * GiB);
  });

  it('holds one more of the largest block where steps leave out different layers', async () => {
    const block = 2 ** 30;
    const footer = ',"skipsLayers":true';
    const { highBytes } = tracedInterval(await traceWith(0, footer, block), peaks, true);
    expect(highBytes).toBeCloseTo(1.01 * 10 * GiB + block, -1);
    const same = tracedInterval(await traceWith(0, '', block), peaks, true);
    expect(same.highBytes).toBeCloseTo(1.01 * 10 * GiB, -1);
  });

  it('reaches far lower for a model that is compiled and for kernels that are tried, and far higher for ragged batches', async () => {
    const compiled = tracedInterval(await traceWith(0, ',"compiled":true'), peaks, true);
    expect(compiled.lowBytes).toBeCloseTo(0.39 * 10 * GiB, -1);
    expect(compiled.highBytes).toBeCloseTo(1.11 * 10 * GiB, -1);
    const fused = tracedInterval(await traceWith(0, ',"fused":true'), peaks, true);
    expect(fused.lowBytes).toBeCloseTo(0.91 * 10 * GiB, -1);
    expect(fused.highBytes).toBeCloseTo(1.13 * 10 * GiB, -1);
    const graphs = tracedInterval(
      await traceWith(0, ',"compiled":true,"graphs":true'),
      peaks,
      true,
    );
    expect(graphs.lowBytes).toBe(compiled.lowBytes);
    expect(graphs.highBytes).toBeCloseTo(1.41 * 10 * GiB, -1);
    const ragged = await traceWith(0, ',"ragged":true,"drawn":true');
    const alone = tracedInterval(ragged, peaks, true);
    expect(alone.lowBytes).toBe(8 * GiB);
    expect(alone.highBytes).toBeCloseTo(1.61 * 10 * GiB, -1);
    const replayed = { ...peaks, otherOrders: [9 * GiB, 12 * GiB] };
    const reordered = tracedInterval(ragged, replayed, true);
    expect(reordered.highBytes).toBeCloseTo(12 * GiB + 0.26 * 10 * GiB, -1);
    expect(reordered.lowBytes).toBeGreaterThanOrEqual(alone.lowBytes);
    const seeded = await traceWith(0, ',"ragged":true');
    expect(tracedInterval(seeded, peaks, true).highBytes).toBeCloseTo(1.41 * 10 * GiB, -1);
    expect(tracedInterval(seeded, replayed, true).highBytes).toBeCloseTo(
      12 * GiB + 0.11 * 10 * GiB,
      -1,
    );
    const tried = tracedInterval(await traceWith(0, ',"benchmark":true'), peaks, true);
    expect(tried.lowBytes).toBeCloseTo(0.96 * 10 * GiB, -1);
    const guesses = await traceWith(0, ',"benchmark":true,"guessesTrials":true');
    const guessed = tracedInterval(guesses, peaks, true);
    expect(guessed.lowBytes).toBeCloseTo(0.89 * 10 * GiB, -1);
    expect(guessed.highBytes).toBe(tried.highBytes);
    expect(tried.highBytes).toBeCloseTo(1.13 * 10 * GiB, -1);
  });

  it('reaches up for a program that was ended, and for what turns that were left out may hold, up to twice what is reserved', async () => {
    const high = async (footer: string) =>
      tracedInterval(await traceWith(0, footer), peaks, true).highBytes / GiB;
    expect(await high(',"ended":true')).toBeCloseTo(13.6, 6);
    expect(await high(`,"maybeMoreBytes":${GiB}`)).toBeCloseTo(11.1, 6);
    expect(await high(`,"maybeMoreBytes":${500 * GiB}`)).toBeCloseTo(30.1, 6);
    const { lowBytes } = tracedInterval(await traceWith(0, ',"ended":true'), peaks, true);
    expect(lowBytes).toBe(tracedInterval(plain, peaks, true).lowBytes);
  });

  it('reaches lower by what only the data decide', async () => {
    const chosen = await traceWith(0, `,"maybeLessBytes":${3 * GiB}`);
    const { lowBytes, highBytes } = tracedInterval(chosen, peaks, true);
    expect(lowBytes).toBeCloseTo(9.9 * GiB - 3 * GiB, -1);
    expect(highBytes).toBe(tracedInterval(plain, peaks, true).highBytes);
    const near = { ...peaks, allocatedBytes: 9.98 * GiB };
    expect(tracedInterval(chosen, near, true).lowBytes).toBeCloseTo(6.98 * GiB, -1);
  });

  it('never goes below what is allocated, and is a segment wide at least', () => {
    const small = { reservedBytes: 60 * MiB, allocatedBytes: 50 * MiB, otherRuns: [] };
    expect(tracedInterval(plain, small, true)).toMatchObject({
      lowBytes: 50 * MiB,
      highBytes: 80 * MiB,
    });
  });
});
