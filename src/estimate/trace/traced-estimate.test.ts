import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { findGpu } from '../cards/gpus.js';
import { replay } from './event-replay.js';
import { readTrace } from './trace-file.js';
import { tracedEstimate } from './traced-estimate.js';
import { gpt2TraceText, pieces } from './traces-for-tests.js';

const trace = await readTrace(pieces(gpt2TraceText()));
const h200 = findGpu('h200');
const estimate = await tracedEstimate(trace, h200);
const { peak, interval, breakdown, notes } = estimate;
const part = (name: string) => breakdown.find((one) => one.part === name)?.bytes ?? 0;

/** What an op allocates, in one line of a trace; with more at its end. */
const withFooter = (footer: string, ...events: readonly string[]) =>
  readTrace(
    pieces(
      [
        '{"plimsoll":"trace","version":1,"torch":"2.11.0"}',
        '["s",0,""]',
        ...events,
        `{"end":true,"parameters":1,"parameterBytes":4,"notes":["Routing is bounded."]${footer}}`,
      ].join('\n'),
    ),
  );
const small = (...events: readonly string[]) => withFooter('', ...events);

describe('tracedEstimate', () => {
  it('answers the peaks of the replay, and adds the context of the card', () => {
    const { peakAllocatedBytes, peakReservedBytes } = replay(trace.stream);
    expect(peak).toMatchObject({
      allocatedBytes: peakAllocatedBytes,
      reservedBytes: peakReservedBytes,
      deviceBytes: peakReservedBytes + h200.context.bytes,
    });
    expect(peak.leastCapacityBytes).toBeGreaterThan(peak.allocatedBytes + h200.context.bytes);
    expect(peak.leastCapacityBytes).toBeLessThanOrEqual(peak.deviceBytes);
  });

  it('still succeeds with the least capacity', () => {
    const allowedBytes = peak.leastCapacityBytes - h200.context.bytes;
    expect(replay(trace.stream, { allowedBytes }).outOfMemory).toBeUndefined();
  });

  it('gives an interval round the estimate, whatever the order of addresses', () => {
    expect(interval.confidence).toBe(0.95);
    for (const addresses of ['driver', 'fresh-driver', 'falling', 'rising'] as const) {
      const { peakReservedBytes } = replay(trace.stream, { addresses });
      expect(interval.lowBytes).toBeLessThan(peakReservedBytes);
      expect(interval.highBytes).toBeGreaterThan(peakReservedBytes);
    }
    expect(interval.lowBytes).toBeGreaterThanOrEqual(peak.allocatedBytes);
  });

  it('answers for the usual order of batches where each run draws another', async () => {
    // Each batch is larger than all before it, and fits into nothing that they left.
    let id = 0;
    const batch = (mib: number) => {
      id += 1;
      return [`["m","batch:0"]`, `["a",${id},${mib * MiB},0,0,"x"]`, `["f",${id}]`];
    };
    const rising = [...[10, 14, 18, 22, 26, 30, 34].flatMap(batch), '["m","batch:0"]'];
    const answers = await Promise.all(
      ['true', 'false'].map(async (drawn) =>
        tracedEstimate(await withFooter(`,"ragged":true,"drawn":${drawn}`, ...rising), h200),
      ),
    );
    const [drawn, known] = answers.map(({ peak: { reservedBytes } }) => reservedBytes);
    expect(drawn).toBeLessThan(known ?? 0);
    expect(answers[0]?.interval.highBytes).toBeGreaterThan(known ?? 0);
  });

  it('counts in that a program may not empty the cache after it built its model', async () => {
    const bytes = (mib: number) => mib * MiB;
    // 300 MiB are left over from building, and the 2 of the first small request that each process makes;
    // a step needs 100 of them at a time, and 10 that stay. 20 MiB may be missed.
    const events = (step: string) => [
      `["a",1,${bytes(300)},0,0,"x"]`,
      '["f",1]',
      '["m","built"]',
      '["c"]',
      '["m","ready"]',
      `["m","${step}"]`,
      `["a",2,${bytes(100)},0,0,"x"]`,
      '["f",2]',
      `["a",3,${bytes(10)},0,0,"x"]`,
    ];
    const trained = await tracedEstimate(await small(...events('step:1:backward')), h200);
    const served = await tracedEstimate(await small(...events('step:1:forward')), h200);
    expect(trained.peak.reservedBytes).toBe(100 * MiB);
    expect(trained.interval.highBytes).toBe(322 * MiB);
    expect(served.interval.highBytes).toBe(120 * MiB);
  });

  it('tells what fills the device at the peak, to the byte', () => {
    expect(breakdown.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(peak.deviceBytes);
    expect(breakdown.every(({ bytes }) => bytes > 0)).toBe(true);
    // Each tensor is rounded up to 512 bytes, so a little more than the parameters themselves.
    for (const name of ['weights', 'gradients']) {
      expect(part(name) / trace.parameterBytes).toBeCloseTo(1, 2);
    }
    expect(part('optimizer') / trace.parameterBytes).toBeCloseTo(2, 2);
    expect(part('context')).toBe(h200.context.bytes);
    expect(notes.join(' ')).toContain('630 to 762 MiB (measured)');
  });

  it('takes the workspace and the context of another card, and says whose kernels it counts', async () => {
    const t4 = findGpu('t4');
    const there = await tracedEstimate(trace, t4);
    const workspace = there.breakdown.find((one) => one.part === 'workspace')?.bytes ?? 0;
    expect(part('workspace') - workspace).toBe(2 * (32 * MiB - t4.workspaceBytes));
    expect(there.peak.deviceBytes - there.peak.reservedBytes).toBe(t4.context.bytes);
    expect(there.notes.join(' ')).toContain('for the Tesla T4 they follow from its architecture');
    expect(notes.join(' ')).not.toContain('architecture');
    const amd = await tracedEstimate(trace, findGpu('mi300x'));
    expect(amd.notes.join(' ')).toContain('are those of the NVIDIA H200');
  });

  it('holds no more than a card has where the job fits, and says so', async () => {
    const card = findGpu('3060');
    const gib = (count: number) => count * 1024 * MiB;
    const events = [`["a",1,${gib(7)},0,0,"x"]`, '["f",1]', `["a",2,${gib(8)},0,0,"x"]`, '["f",2]'];
    const there = await tracedEstimate(await small(...events), card);
    expect(there.peak.reservedBytes).toBe(gib(8));
    expect(there.peak.deviceBytes).toBeLessThan(card.capacityBytes);
    expect(there.interval.highBytes).toBeLessThan(card.capacityBytes - card.context.bytes);
    expect(there.peak.leastCapacityBytes).toBe(gib(8) + card.context.bytes);
    expect(there.notes.join(' ')).toContain('gives back what it holds unused');
    // On a card with room for both, both stay.
    expect((await tracedEstimate(await small(...events), h200)).peak.reservedBytes).toBe(
      gib(15) + 2 * MiB,
    );
  });

  it('does not refuse a card for the workspace of a convolution', async () => {
    const events = [
      '["s",1,"aten.convolution.default"]',
      `["a",1,${1024 * MiB},0,0,"x"]`,
      `["a",2,${4096 * MiB},1,0,"k"]`,
      '["f",2]',
    ];
    const { peak: asked } = await tracedEstimate(await small(...events), h200);
    expect(asked.reservedBytes).toBe(5122 * MiB);
    expect(asked.leastCapacityBytes).toBeLessThan(1100 * MiB + h200.context.bytes);
  });

  it('says when building the model takes more than running it', async () => {
    const built = ['["a",1,104857600,0,0,"w"]', '["f",1]', '["m","built"]', '["c"]'];
    const events = [...built, '["m","ready"]', '["a",2,600,0,0,"x"]'];
    const answer = await tracedEstimate(await small(...events), h200);
    expect(answer.peak.reservedBytes).toBe(2 * MiB);
    expect(answer.peak.leastCapacityBytes).toBe(100 * MiB + h200.context.bytes);
    expect(answer.notes.join(' ')).toContain('Building the model takes more');
    expect(answer.notes).toContain('Routing is bounded.');
  });
});
