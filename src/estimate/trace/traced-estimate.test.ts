import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { findGpu } from '../cards/gpus.js';
import { replay } from './event-replay.js';
import { type EventStream, EventStreamBuilder } from './event-stream.js';
import { readTrace } from './trace-file.js';
import { liveParts, otherRanks, PhaseWatch, tracedEstimate } from './traced-estimate.js';
import { gpt2TraceText, pieces } from './traces-for-tests.js';

const gpt2Trace = await readTrace(pieces(gpt2TraceText()));
const h200 = findGpu('h200');
const estimate = await tracedEstimate(gpt2Trace, h200);
const { peak, interval, breakdown, notes } = estimate;
const part = (name: string) => breakdown.find((one) => one.part === name)?.bytes ?? 0;

/** One line of a trace with the allocations of an op, and a footer. */
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
    const { peakAllocatedBytes, peakReservedBytes } = replay(gpt2Trace.stream);
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
    expect(replay(gpt2Trace.stream, { allowedBytes }).outOfMemory).toBeUndefined();
  });

  it('gives an interval round the estimate, whatever the order of addresses', () => {
    expect(interval.confidence).toBe(0.95);
    for (const addresses of ['driver', 'fresh-driver', 'falling', 'rising'] as const) {
      const { peakReservedBytes } = replay(gpt2Trace.stream, { addresses });
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
      expect(part(name) / gpt2Trace.parameterBytes).toBeCloseTo(1, 2);
    }
    expect(part('optimizer') / gpt2Trace.parameterBytes).toBeCloseTo(2, 2);
    expect(part('context')).toBe(h200.context.bytes);
    expect(notes.join(' ')).toContain('630 to 762 MiB (measured)');
  });

  it('takes the workspace and the context of another card, and says whose kernels it counts', async () => {
    const t4 = findGpu('t4');
    const there = await tracedEstimate(gpt2Trace, t4);
    const workspace = there.breakdown.find((one) => one.part === 'workspace')?.bytes ?? 0;
    expect(part('workspace') - workspace).toBe(2 * (32 * MiB - t4.workspaceBytes));
    expect(there.peak.deviceBytes - there.peak.reservedBytes).toBe(t4.context.bytes);
    expect(there.notes.join(' ')).toContain('for the Tesla T4 they follow from its architecture');
    expect(notes.join(' ')).not.toContain('architecture');
    const amd = await tracedEstimate(gpt2Trace, findGpu('mi300x'));
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

const names = ['', 'layers.0.mlp', 'layers.1.mlp', 'head', 'conv2d.3x3'];
const partsTrace = await readTrace(
  pieces(
    [
      '{"plimsoll":"trace","version":1,"torch":"2.11.0"}',
      ...names.map((name, index) => JSON.stringify(['s', index, name])),
      '["a",1,1000,0,0,"w"]',
      '["a",2,1000,0,1,"x"]',
      '["a",3,1000,0,2,"x"]',
      '["a",4,512,0,2,"x"]',
      '["a",5,4096,0,4,"x"]',
      '["a",6,100,0,0,"b"]',
      '["a",7,2048,0,3,"t"]',
      '["a",8,9999,0,3,"x"]',
      '["f",8]',
      '["a",9,9999,0,3,"x"]',
      '{"end":true,"parameters":1,"parameterBytes":4}',
    ].join('\n'),
  ),
);
// Two events come before those above: what every job caches at its start.
const last = partsTrace.stream.kind.length - 2;
const { bytes, modules } = liveParts(partsTrace, last);

describe('liveParts', () => {
  it('adds up what is live at that instant, in the blocks the allocator hands out', () => {
    expect([...bytes]).toEqual([
      ['weights', 1024],
      ['activations', 1024 + 1024 + 512 + 4096 + 512],
      ['temporary', 2048],
    ]);
  });

  it('folds modules that differ in their numbers only, and says how many there were', () => {
    expect(modules.get('activations')).toEqual([
      { module: 'conv2d.3x3', count: 1, bytes: 4096 },
      { module: 'layers.*.mlp', count: 2, bytes: 2560 },
      { module: '', count: 1, bytes: 512 },
    ]);
    expect(modules.get('temporary')).toEqual([{ module: 'head', count: 1, bytes: 2048 }]);
    expect(modules.has('weights')).toBe(false);
  });
});

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

function phasePeaks(stream: EventStream, watch = new PhaseWatch()) {
  return watch.peaksOf(replay(stream, {}, watch.onMark).allocator);
}

describe('PhaseWatch', () => {
  it('tells the highest figures of each phase, and which one makes the peak', () => {
    const builder = new EventStreamBuilder();
    builder.mark('phase:building');
    builder.alloc(40 * MiB);
    builder.mark('phase:steady steps');
    const step = builder.alloc(100 * MiB);
    builder.free(step);
    builder.mark('phase:evaluation');
    const evaluation = builder.alloc(60 * MiB);
    builder.free(evaluation);
    builder.mark('phase:steady steps');
    builder.alloc(20 * MiB);
    expect(phasePeaks(builder.finish())).toEqual([
      {
        phase: 'building',
        allocatedBytes: 40 * MiB,
        reservedBytes: 40 * MiB,
        makesPeak: false,
      },
      {
        phase: 'steady steps',
        allocatedBytes: 140 * MiB,
        reservedBytes: 140 * MiB,
        makesPeak: true,
      },
      {
        phase: 'evaluation',
        allocatedBytes: 100 * MiB,
        reservedBytes: 140 * MiB,
        makesPeak: false,
      },
    ]);
  });

  it('names the phase that reached the peak, though an earlier one comes again after it', () => {
    const builder = new EventStreamBuilder();
    builder.mark('phase:steady steps');
    builder.free(builder.alloc(40 * MiB));
    builder.mark('phase:evaluation');
    builder.free(builder.alloc(100 * MiB));
    builder.mark('phase:steady steps');
    builder.free(builder.alloc(40 * MiB));
    const making = phasePeaks(builder.finish()).filter(({ makesPeak }) => makesPeak);
    expect(making.map(({ phase }) => phase)).toEqual(['evaluation']);
  });

  it('has none where nothing was marked', () => {
    expect(phasePeaks(new EventStreamBuilder().finish())).toEqual([]);
  });

  it('leaves the peaks of a replay as they are, and keeps several replays apart', () => {
    const builder = new EventStreamBuilder();
    builder.mark('phase:building');
    builder.free(builder.alloc(100 * MiB));
    builder.emptyCache();
    builder.mark('phase:steady steps');
    builder.alloc(40 * MiB);
    const stream = builder.finish();
    const watch = new PhaseWatch();
    const { allocator: _, ...watched } = replay(stream, {}, watch.onMark);
    expect(replay(stream)).toMatchObject(watched);
    expect(watched).toMatchObject({ peakReservedBytes: 100 * MiB, peakAllocatedAt: 0 });
    expect(phasePeaks(stream, watch)).toEqual(phasePeaks(stream));
  });
});
