import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { replay } from './event-replay.js';
import { type EventStream, EventStreamBuilder, eventKind } from './event-stream.js';
import { shuffledStreams } from './shuffled-batches.js';

/** A training whose batches ask for so much, each of which leaves its loss to the next one. */
function training(sizes: readonly number[], passes = 1): EventStream {
  const builder = new EventStreamBuilder();
  builder.alloc(5 * MiB);
  for (let pass = 0; pass < passes; pass += 1) {
    let loss: number | undefined;
    for (const size of sizes) {
      builder.mark(`batch:${pass}`);
      const batch = builder.alloc(size * MiB);
      const activations = builder.alloc(2 * size * MiB);
      const next = builder.alloc(512);
      if (loss !== undefined) builder.free(loss);
      loss = next;
      builder.free(activations);
      builder.free(batch);
    }
    const evaluated = builder.alloc(3 * MiB);
    builder.free(evaluated);
    if (loss !== undefined) builder.free(loss);
  }
  return builder.finish();
}

const asked = (stream: EventStream) =>
  Array.from(stream.bytes).filter((_, at) => stream.kind[at] === eventKind.alloc);
const growing = [30, 5, 6, 7, 8, 9, 10, 11, 12, 13, 4];

describe('shuffledStreams', () => {
  it('asks for the same in other orders, and frees each once', () => {
    const stream = training(growing, 2);
    const orders = new Set<string>();
    for (const one of shuffledStreams(stream)) {
      orders.add(asked(one).join());
      const inOrder = (sizes: number[]) => sizes.toSorted((a, b) => a - b);
      expect(inOrder(asked(one))).toEqual(inOrder(asked(stream)));
      const { allocator, outOfMemory } = replay(one);
      expect(outOfMemory).toBeUndefined();
      // The weights alone are left.
      expect(allocator.allocatedBytes).toBe(5 * MiB);
    }
    expect(orders.size).toBeGreaterThan(5);
  });

  it('leaves what follows the last batch where it is; any other may come first', () => {
    const stream = training(growing);
    const orders = [...shuffledStreams(stream)];
    for (const one of orders) expect(asked(one).slice(-4)).toEqual(asked(stream).slice(-4));
    expect(new Set(orders.map((one) => asked(one)[1])).size).toBeGreaterThan(2);
  });

  it('changes places in short passes, too: what is held depends on which of two comes first', () => {
    const stream = training([10, 15, 1], 6);
    const peaks = Array.from(shuffledStreams(stream), (one) => replay(one).peakReservedBytes);
    expect(new Set(peaks).size).toBe(2);
  });

  it('frees a few that are held for longer after the last batch', () => {
    const builder = new EventStreamBuilder();
    const losses: number[] = [];
    for (let batch = 0; batch < 12; batch += 1) {
      builder.mark('batch:0');
      builder.free(builder.alloc((batch + 1) * MiB));
      losses.push(builder.alloc(512));
      if (losses.length === 5) losses.splice(0).forEach((one) => builder.free(one));
    }
    const orders = [...shuffledStreams(builder.finish())];
    expect(orders).toHaveLength(10);
    for (const one of orders) {
      const { allocator } = replay(one);
      expect(allocator.allocatedBytes).toBe(losses.length * 512);
    }
  });

  it('finds what an allocator holds where larger batches come later', () => {
    const falling = training([30, 29, 28, 25, 22, 19, 16, 13, 10, 7, 4]);
    const peaks = Array.from(shuffledStreams(falling), (one) => replay(one).peakReservedBytes);
    expect(Math.max(...peaks)).toBeGreaterThanOrEqual(replay(falling).peakReservedBytes);
    expect(new Set(peaks).size).toBeGreaterThan(0);
    const rising = training(growing.toSorted((a, b) => a - b));
    const others = Array.from(shuffledStreams(rising), (one) => replay(one).peakReservedBytes);
    // Each batch that is larger than all before it leaves what these had unused.
    expect(Math.min(...others)).toBeLessThan(replay(rising).peakReservedBytes);
  });

  it('keeps batches together whose gradients are added up', () => {
    const builder = new EventStreamBuilder();
    for (let step = 0; step < 8; step += 1) {
      builder.mark('batch:0');
      const gradients = Array.from({ length: 20 }, () => builder.alloc((step + 1) * MiB));
      builder.mark('batch:0');
      builder.alloc(512);
      for (const gradient of gradients) builder.free(gradient);
    }
    const orders = [...shuffledStreams(builder.finish())];
    expect(orders.length).toBeGreaterThan(5);
    for (const one of orders) {
      const sizes = asked(one);
      expect(sizes.filter((_, at) => at % 21 === 20)).toEqual(Array.from({ length: 8 }, () => 512));
      // Those of one step at a time.
      expect(replay(one).peakAllocatedBytes).toBe(20 * 8 * MiB + 8 * 512);
    }
  });

  it('follows loaders that fetch a batch ahead', () => {
    const builder = new EventStreamBuilder();
    const batches: number[] = [];
    for (const size of growing) {
      builder.mark('batch:0');
      batches.push(builder.alloc(size * MiB));
      const used = batches.at(-3);
      if (used !== undefined) builder.free(used);
    }
    const orders = [...shuffledStreams(builder.finish())];
    expect(orders.length).toBeGreaterThan(5);
    // Two of them are live at any time, and for a moment three.
    for (const one of orders) expect(replay(one).peakAllocatedBytes).toBeLessThanOrEqual(55 * MiB);
  });

  it('asks for the state of an optimizer in the first step, whichever batch comes first', () => {
    const builder = new EventStreamBuilder();
    const state: number[] = [];
    // A loader that fetches a batch ahead: nothing is left by its first part.
    builder.mark('batch:0');
    let ahead = builder.alloc(512);
    for (const size of growing) {
      builder.mark('batch:0');
      const next = builder.alloc(512);
      const gradients = builder.alloc(size * MiB);
      if (state.length === 0) {
        state.push(...Array.from({ length: 40 }, () => builder.alloc(3 * MiB)));
      }
      builder.free(gradients);
      builder.free(ahead);
      ahead = next;
    }
    builder.mark('batch:0');
    builder.free(ahead);
    builder.mark('batch:1');
    for (const one of state) builder.free(one);
    const orders = [...shuffledStreams(builder.finish())];
    expect(orders).toHaveLength(10);
    const firsts = orders.map((one) => {
      const large = asked(one).filter((bytes) => bytes >= MiB);
      expect(large.slice(1, 41)).toEqual(Array.from({ length: 40 }, () => 3 * MiB));
      expect(large).toHaveLength(growing.length + 40);
      expect(replay(one).allocator.allocatedBytes).toBe(0);
      return large[0];
    });
    expect(new Set(firsts).size).toBeGreaterThan(2);
  });

  it('is nothing without marks, with few batches or equal ones, or where streams wait for one another', () => {
    const streams = training(growing);
    const waits = new EventStreamBuilder();
    waits.use(waits.alloc(MiB));
    for (const stream of [
      training([1, 2]),
      training([3, 3, 3, 4]),
      { ...streams, marks: [] },
      waits.finish(),
    ]) {
      expect([...shuffledStreams(stream)]).toEqual([]);
    }
  });
});
