import { describe, expect, it } from 'vitest';
import { MiB } from '../../../units/bytes.js';
import { replay } from '../event-replay.js';
import { EventStreamBuilder, eventKind } from '../event-stream.js';
import type { Trace } from '../trace-file.js';
import { closedSteps, withLeftOutSteps } from './repeated-steps.js';

interface Training {
  /** Batches whose gradients are added up. */
  readonly batches?: number;
  readonly leftOut?: number;
  /** Bytes that each step keeps. */
  readonly keeps?: number;
  /** Another loader is read in the same loop. */
  readonly together?: boolean;
}

/** Two steps and a short last one, between which steps were left out. A step gives back the gradients of the last. */
function training({ batches = 1, leftOut = 5, keeps = 0, together = false }: Training) {
  const builder = new EventStreamBuilder();
  const weights = builder.alloc(3 * MiB);
  let gradients: number | undefined;
  const step = (size: number) => {
    for (let batch = 0; batch < batches; batch += 1) {
      builder.mark('batch:0');
      if (together) builder.mark('batch:1');
      const activations = builder.alloc(size * MiB);
      if (batch === 0 && gradients !== undefined) builder.free(gradients);
      if (batch === 0) gradients = builder.alloc(3 * MiB);
      builder.free(activations);
      if (keeps > 0) builder.alloc(keeps);
    }
  };
  step(8);
  const state = builder.alloc(6 * MiB);
  step(8);
  builder.mark('batch:0');
  builder.mark(`left-out:0:${leftOut}:${batches}`);
  if (together) {
    builder.mark('batch:1');
    builder.mark(`left-out:1:${leftOut}:${batches}`);
  }
  builder.mark('phase:evaluation');
  step(2);
  for (const one of [gradients, state, weights]) builder.free(one ?? 0);
  return builder.finish();
}

const traceOf = (stream: Trace['stream'], ragged = false): Trace => ({
  torch: '2.11.0',
  stream,
  category: Uint8Array.from({ length: stream.slots }, (_, slot) => slot),
  module: new Int32Array(stream.slots),
  strings: [''],
  convolutions: 0,
  unsure: [],
  parameters: 1,
  parameterBytes: 4,
  notes: [],
  skipsLayers: false,
  program: true,
  compiled: false,
  fused: false,
  graphs: false,
  ragged,
  drawn: false,
  benchmark: false,
  guessesTrials: false,
  maybeLessBytes: 0,
  maybeMoreBytes: 0,
  ended: false,
});

const longer = (options: Training) => withLeftOutSteps(traceOf(training(options)))?.stream;
const asked = ({ kind, bytes }: Trace['stream']) =>
  Array.from(bytes)
    .filter((_, at) => kind[at] === eventKind.alloc)
    .map((size) => size / MiB);

describe('withLeftOutSteps', () => {
  it('adds as many equal steps as were left out, and frees all of them', () => {
    const stream = longer({ leftOut: 3 });
    expect(stream && asked(stream)).toEqual([3, 8, 3, 6, 8, 3, 8, 3, 8, 3, 8, 3, 2, 3]);
    expect(stream && replay(stream).allocator.allocatedBytes).toBe(0);
  });

  it('holds no more at once than the steps do that were run', () => {
    const stream = longer({ leftOut: 9 });
    expect(stream && replay(stream).peakAllocatedBytes).toBe(
      replay(training({})).peakAllocatedBytes,
    );
  });

  it('adds whole steps where they are of several batches', () => {
    const stream = longer({ batches: 2, leftOut: 5 });
    const before = asked(training({ batches: 2 }));
    expect(stream && asked(stream).length - before.length).toBe(2 * 3);
    expect(stream && replay(stream).allocator.allocatedBytes).toBe(0);
  });

  it('adds a few where many were left out', () => {
    const stream = longer({ leftOut: 1_000_000 });
    expect(stream?.length).toBeLessThan(200);
  });

  it('adds steps once where two loaders are read together', () => {
    const [one, two] = [longer({}), longer({ together: true })];
    expect(two && asked(two)).toEqual(one && asked(one));
  });

  it('leaves marks before what they were before, and says what each block is for', () => {
    const stream = training({});
    const made = withLeftOutSteps(traceOf(stream));
    const after = (one: Trace['stream'] | undefined) =>
      (one?.length ?? 0) - (one?.marks.find(({ name }) => name === 'phase:evaluation')?.at ?? 0);
    expect(after(made?.stream)).toBe(after(stream));
    const [first, repeated] = [4, 8].map((event) => made?.stream.slot[event + 4] ?? 0);
    expect(first).toBeLessThan(stream.slots);
    expect(repeated).toBeGreaterThanOrEqual(stream.slots);
    expect(made?.category.length).toBe(made?.stream.slots);
    expect(Math.max(...(made?.category ?? []))).toBeLessThan(stream.slots);
  });

  it('lets a report keep a value of each step, but repeats no step that keeps more', () => {
    const stream = longer({ keeps: 512 });
    expect(stream && asked(stream).length).toBeGreaterThan(asked(training({ keeps: 512 })).length);
    expect(longer({ keeps: MiB })).toBeUndefined();
  });

  it('adds nothing where nothing was left out, or batches differ', () => {
    expect(longer({ leftOut: 0 })).toBeUndefined();
    expect(withLeftOutSteps(traceOf(training({}), true))).toBeUndefined();
  });
});

describe('closedSteps', () => {
  it('does not repeat the first step of an optimizer', () => {
    const builder = new EventStreamBuilder();
    builder.mark('batch:0');
    builder.alloc(4 * MiB);
    builder.mark('batch:0');
    builder.mark('left-out:0:10:1');
    builder.alloc(MiB);
    expect(closedSteps(builder.finish())).toEqual([]);
  });

  it('repeats a turn of a loop that left others out', () => {
    const builder = new EventStreamBuilder();
    builder.mark('turn:t0');
    builder.free(builder.alloc(4 * MiB));
    builder.mark('left-out:t0:7:1');
    builder.mark('turn:t0');
    builder.alloc(MiB);
    expect(closedSteps(builder.finish())).toMatchObject([{ from: 0, to: 2, times: 7 }]);
  });

  it('does not repeat what other streams wait for', () => {
    const builder = new EventStreamBuilder();
    builder.mark('batch:0');
    const used = builder.alloc(4 * MiB);
    builder.use(used);
    builder.free(used);
    builder.mark('batch:0');
    builder.mark('left-out:0:10:1');
    expect(closedSteps(builder.finish())).toEqual([]);
  });
});
