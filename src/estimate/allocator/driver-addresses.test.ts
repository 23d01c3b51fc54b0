import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import {
  addressSpaceFor,
  DriverAddresses,
  type DriverHistory,
  type Sized,
  SizedList,
} from './driver-addresses.js';

/** Takes (positive) and gives back (negative) ranges of so many MiB; says where the taken ones lie. */
function placesOf(history: DriverHistory, steps: readonly number[]): number[] {
  const addresses = new DriverAddresses(history);
  const live = new Map<number, number>();
  const places: number[] = [];
  for (const step of steps) {
    if (step > 0) {
      const start = addresses.take(step * MiB);
      places.push(start / MiB);
      live.set(step, start);
    } else {
      addresses.give(live.get(-step) ?? Number.NaN, -step * MiB);
    }
  }
  return places;
}

describe('DriverAddresses', () => {
  it('places the segments of a job where a real driver placed them', () => {
    // From the snapshot of a job on an H200, counted from the start of the first region.
    const asked = [2, 148, ...repeat(20, 19), 24, 24, 24, 72];
    const thirteen = Array.from({ length: 13 }, (_, i) => 148 + i * 20);
    const falling = [-544, -576, -608, -640, -672, -704, -736, -768, -864];
    expect(placesOf('after-kernels', asked)).toEqual([414, 0, ...thirteen, 490, ...falling]);
  });

  it('moves what it has when the first kernel runs, and keeps the segments of before', () => {
    // Qwen3-MoE on an H200: its first weights are laid out, then those of norms are filled with ones.
    const addresses = new DriverAddresses('fresh');
    const take = (sizes: readonly number[]) =>
      sizes.map((size) => addresses.take(size * MiB) / MiB);
    expect(take([2, 274, 20])).toEqual([414, -288, 488]);
    addresses.runFirstKernel();
    expect(take([86, 44, 2, 86, 44, 20, 2])).toEqual([0, 86, -294, 130, 216, 260, -292]);
    expect(take([86, 44, 86, 44, 20, 2])).toEqual([280, 366, -896, -960, -916, -810]);
    expect(take([86, 44, 2, 86, 44, 20])).toEqual([-1056, -1120, -1076, -1216, -1280, -1236]);
  });

  it('is as after kernels where a small segment was all there was', () => {
    const sizes = [148, 20, 2, 300, 20, 6, 40];
    const addresses = new DriverAddresses('fresh');
    expect(addresses.take(2 * MiB) / MiB).toBe(414);
    addresses.runFirstKernel();
    const places = sizes.map((size) => addresses.take(size * MiB) / MiB);
    expect([414, ...places]).toEqual(placesOf('after-kernels', [2, ...sizes]));
  });

  it('uses the newest region first, wherever it lies', () => {
    // 88 goes into the gap that 102 and 26 left, above 150; its region is the newest.
    const steps = [94, 172, 102, 26, 30, 150, -102, -26, 88, 4];
    expect(placesOf('fresh', steps).at(-2)).toBe(-384);
    expect(placesOf('fresh', steps).at(-1)).toBe(-296);
  });

  it('passes over a gap of just the right size', () => {
    expect(placesOf('fresh', [96, 64, 128, -64, 62])).toEqual([-96, -160, -288, -352]);
    expect(placesOf('fresh', [96, 64, 128, -64, 30])).toEqual([-96, -160, -288, -128]);
  });

  it('takes the smaller of two holes in a region', () => {
    expect(placesOf('fresh', [176, 4, -176, 128, 2])).toEqual([-192, -16, -192, -12]);
  });

  it('agrees with a driver that looks at every range, each time', () => {
    const size = fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(1, 1, 10, 16, 32, 300));
    const step = fc.oneof(
      { weight: 3, arbitrary: size.map((count) => ({ bytes: count * 2 * MiB })) },
      { weight: 2, arbitrary: fc.nat(100).map((which) => ({ which })) },
    );
    const history = fc.constantFrom<DriverHistory>('fresh', 'after-kernels');
    fc.assert(
      fc.property(history, fc.array(step, { maxLength: 150, size: 'max' }), (before, steps) => {
        const addresses = new DriverAddresses(before);
        const plain = new PlainDriver(before);
        const live: Range[] = [];
        for (const one of steps) {
          if ('bytes' in one) {
            const start = addresses.take(one.bytes);
            expect(start).toBe(plain.take(one.bytes));
            live.push({ start, end: start + one.bytes });
            continue;
          }
          const [gone] = live.splice(one.which % Math.max(live.length, 1), 1);
          if (gone === undefined) continue;
          addresses.give(gone.start, gone.end - gone.start);
          plain.give(gone.start);
        }
      }),
      { numRuns: 150 },
    );
  });
});

function repeat(value: number, times: number): number[] {
  return Array.from({ length: times }, () => value);
}

interface Range {
  readonly start: number;
  readonly end: number;
}

function range(start: number, end: number): Range {
  return { start: start * MiB, end: end * MiB };
}

/** The same rules without any bookkeeping of holes. */
class PlainDriver {
  readonly #lasting: readonly Range[];
  /** The oldest first. */
  #regions: Range[];
  #used: Range[];
  #keepsFirst: boolean;

  constructor(history: DriverHistory) {
    const fresh = history === 'fresh';
    this.#lasting = [range(480, 512), range(0, 480), ...(fresh ? [] : [range(-512, 0)])];
    this.#regions = [...this.#lasting];
    this.#used = fresh
      ? [range(0, 414), range(416, 480), range(480, 488)]
      : [range(414, 480), range(480, 490), range(-512, -6)];
    this.#keepsFirst = !fresh;
  }

  take(bytes: number): number {
    const first = this.#keepsFirst;
    this.#keepsFirst = false;
    if (first && bytes === 2 * MiB) {
      this.#used = this.#used.filter(({ start }) => start !== 414 * MiB);
      this.#used.push(range(414, 416), range(416, 480));
      return 414 * MiB;
    }
    const start = this.#hole(bytes) ?? this.#newRegion(bytes);
    this.#used.push({ start, end: start + bytes });
    return start;
  }

  give(start: number): void {
    this.#used = this.#used.filter((one) => one.start !== start);
    this.#regions = this.#regions.filter(
      (region) => this.#lasting.includes(region) || this.#inside(region).length > 0,
    );
  }

  #inside(region: Range): Range[] {
    return this.#used
      .filter(({ start }) => start >= region.start && start < region.end)
      .toSorted((a, b) => a.start - b.start);
  }

  #hole(bytes: number): number | undefined {
    for (const region of this.#regions.toReversed()) {
      let from = region.start;
      const holes: Range[] = [];
      for (const { start, end } of [...this.#inside(region), { start: region.end, end: 0 }]) {
        if (start - from >= bytes) holes.push({ start: from, end: start });
        from = end;
      }
      const [best] = holes.toSorted((a, b) => a.end - a.start - (b.end - b.start));
      if (best !== undefined) return best.start;
    }
    return undefined;
  }

  #newRegion(bytes: number): number {
    const length = Math.ceil(bytes / (32 * MiB)) * 32 * MiB;
    const fromTop = this.#regions.toSorted((a, b) => b.start - a.start);
    const above = fromTop.find(
      ({ start }, at) => start - (fromTop[at + 1]?.end ?? -Infinity) > length,
    );
    const end = above?.start ?? 0;
    this.#regions.push({ start: end - length, end });
    return end - length;
  }
}

describe('SizedList', () => {
  it('finds the last that is large enough, as looking at each one does', () => {
    const change = fc.record({
      kind: fc.constantFrom('add' as const, 'add' as const, 'remove' as const, 'resize' as const),
      order: fc.nat(10_000),
      size: fc.nat(50),
    });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 700, size: 'max' }), (changes) => {
        const list = new SizedList<Sized>();
        const plain = new Map<number, Sized>();
        for (const { kind, order, size } of changes) {
          const there = plain.get(order) ?? [...plain.values()][order % (plain.size || 1)];
          if (kind === 'add' && !plain.has(order)) {
            const entry = { order, size };
            plain.set(order, entry);
            list.add(entry);
          } else if (kind === 'remove' && there !== undefined) {
            plain.delete(there.order);
            list.remove(there);
          } else if (there !== undefined) {
            list.resize(there, size);
          }
          const sorted = [...plain.values()].toSorted((a, b) => a.order - b.order);
          expect(list.lastOf(size)).toBe(sorted.findLast((entry) => entry.size >= size));
        }
      }),
      { numRuns: 10 },
    );
  });
});

describe('addressSpaceFor', () => {
  it('goes one way when it is told to', () => {
    const falling = addressSpaceFor('falling');
    const rising = addressSpaceFor('rising');
    const sizes = [20, 2, 40];
    expect(sizes.map((bytes) => falling.take(bytes))).toEqual([-20, -22, -62]);
    expect(sizes.map((bytes) => rising.take(bytes))).toEqual([0, 20, 22]);
  });
});
