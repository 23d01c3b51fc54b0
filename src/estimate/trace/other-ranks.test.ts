import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { findGpu } from '../cards/gpus.js';
import { otherRanks } from './other-ranks.js';
import { readTrace } from './trace-file.js';
import { pieces } from './traces-for-tests.js';

/** A rank whose first bucket is given back when the second step begins. */
function rank(bucket: 'u' | 'g'): string {
  const step = (number: number, id: number, given: readonly unknown[]) => [
    ...given,
    ['m', `step:${number}:forward`],
    ['a', id, 200 * MiB, 0, 0, 'x'],
    ['m', `step:${number}:backward`],
    ['f', id],
    ['m', `step:${number}:optimizer`],
    ['m', `step:${number}:end`],
  ];
  const lines = [
    { plimsoll: 'trace', version: 1, torch: '2.11.0', workload: { config: 'x' } },
    ['s', 0, ''],
    ['a', 1, 100 * MiB, 0, 0, bucket],
    ['m', 'ready'],
    ...step(1, 2, []),
    ...step(2, 3, [
      ['f', 1],
      ['a', 4, 100 * MiB, 0, 0, bucket],
    ]),
    { end: true, parameters: 1, parameterBytes: 4, notes: [] },
  ];
  return `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`;
}

describe('a rank whose memory is given back late', () => {
  it.each(['u', 'g'] as const)('may hold the first bucket of DDP longer (%s)', async (bucket) => {
    const trace = await readTrace(pieces(rank(bucket)));
    const gpu = findGpu('h200');
    const [usual = 0, ...late] = otherRanks(trace, gpu, { way: 'ddp', gpus: 2 });
    expect(Math.max(...late) - usual).toBeGreaterThanOrEqual(100 * MiB);
    expect(otherRanks(trace, gpu, { way: 'fsdp2', gpus: 2 }).length).toBe(1);
  });

  it('may have twice the buffers of DeepSpeed', async () => {
    const trace = await readTrace(pieces(rank('u')));
    const [usual = 0, twice = 0] = otherRanks(trace, findGpu('h200'), {
      way: 'zero3',
      gpus: 2,
    });
    expect(twice - usual).toBeGreaterThanOrEqual(100 * MiB);
  });
});
