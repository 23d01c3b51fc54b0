import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { replayOn } from '../cards/card-limit.js';
import { findGpu } from '../cards/gpus.js';
import { replay } from './event-replay.js';
import { readTrace } from './trace-file.js';
import { pieces } from './traces-for-tests.js';
import { drawnStreams, likelyPeaks, drawnPeaks as peaksOfDraws } from './unsure-kernels.js';

/** A tensor of 100 MiB, and beside it scratch memory as each line says. */
const traceOf = (...scratch: string[]) =>
  readTrace(
    pieces(
      [
        '{"plimsoll":"trace","version":1,"torch":"2.11.0"}',
        '["s",0,""]',
        `["a",1,${100 * MiB},0,0,"x"]`,
        ...scratch,
        '["f",1]',
        '{"end":true,"parameters":1,"parameterBytes":4,"notes":[]}',
      ].join('\n'),
    ),
  );

async function drawnPeaks(...scratch: string[]): Promise<number[]> {
  const { stream, unsure } = await traceOf(...scratch);
  return Array.from(drawnStreams(stream, unsure), (one) => replay(one).peakAllocatedBytes / MiB);
}

describe('scratch memory of kernels that are not sure', () => {
  it('counts as the likelier kernel has it, which may be none at all', async () => {
    const some = await traceOf(`["o",${30 * MiB},${50 * MiB},0.2,0]`);
    const none = await traceOf(`["o",0,${50 * MiB},0.2,0]`);
    expect(replay(some.stream).peakAllocatedBytes).toBe(130 * MiB);
    expect(replay(none.stream).peakAllocatedBytes).toBe(100 * MiB);
  });

  it('is drawn as often as it is likely, and the same each time', async () => {
    const peaks = await drawnPeaks(`["o",${30 * MiB},${50 * MiB},0.25,0]`);
    const others = peaks.filter((peak) => peak === 150);
    expect(new Set(peaks)).toEqual(new Set([130, 150]));
    expect(others.length).toBeGreaterThan(peaks.length / 8);
    expect(others.length).toBeLessThan(peaks.length / 2);
    expect(await drawnPeaks(`["o",${30 * MiB},${50 * MiB},0.25,0]`)).toEqual(peaks);
  });

  it('comes and goes with its request and its free', async () => {
    expect(new Set(await drawnPeaks(`["o",0,${50 * MiB},0.5,0]`))).toEqual(new Set([100, 150]));
    expect(new Set(await drawnPeaks(`["o",${50 * MiB},0,0.5,0]`))).toEqual(new Set([100, 150]));
  });

  it('is decided alike for layers of the same shapes, and apart for others', async () => {
    const first = `["o",${20 * MiB},${60 * MiB},0.5,0]`;
    const alike = await drawnPeaks(first, `["o",${30 * MiB},0,0.5,0]`);
    expect(new Set(alike)).toEqual(new Set([130, 160]));
    const apart = await drawnPeaks(first, `["o",${30 * MiB},0,0.5,1]`);
    expect(new Set(apart)).toEqual(new Set([120, 130, 160]));
  });

  it('leaves out the few peaks at either end', () => {
    expect(likelyPeaks([9, 1, 5, 7, 6, 2])).toEqual([5, 6]);
    expect(likelyPeaks([])).toEqual([]);
  });

  it('is refused where it makes no sense', async () => {
    await expect(traceOf('["o",1,2,1.5,0]')).rejects.toThrow(/chance/);
    await expect(traceOf('["o",1,-2,0.5,0]')).rejects.toThrow(/whole/);
    await expect(traceOf('["o",1,1e300,0.5,0]')).rejects.toThrow(/whole|too much/);
  });

  it.each([
    ['lies in a free block, takes a segment, or another one', [10, 30], [50, 0], [80, 12]],
    ['takes segments of the same size', [47, 47.5], [0, 47.75], [90, 91.75]],
    ['changes from small requests to large ones', [0.5, 43], [0.25, 0.75], [52, 0.5]],
  ])('reserves as in a replay of each draw, where it %s', async (_, ...sizes) => {
    const free = [`["a",2,${40 * MiB},0,0,"x"]`, '["f",2]'];
    const lines = sizes.map(([one = 0, other = 0], at) => {
      const scratch = `["o",${one * MiB},${other * MiB},${0.3 + at / 10},${at}]`;
      return [scratch, `["a",${at + 3},${7 * MiB},0,0,"x"]`];
    });
    const { stream, unsure } = await traceOf(...free, ...lines.flat());
    for (const gpu of [findGpu('h200'), { ...findGpu('h200'), capacityBytes: 900 * MiB }]) {
      const peaks = Array.from(
        drawnStreams(stream, unsure),
        (one) => replayOn(gpu, one).peakReservedBytes,
      );
      expect(new Set(peaks).size).toBeGreaterThan(1);
      expect(peaksOfDraws(gpu, stream, unsure)).toEqual(peaks);
    }
  });
});
