import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { addressSpaceFor } from './address-space.js';

describe('addressSpaceFor', () => {
  it('places segments where a real driver placed them', () => {
    // From the snapshot of a job on an H200, in MiB, counted from the start of the upper region.
    const asked = [2, 148, ...repeat(20, 19), 24, 24, 24, 72];
    const thirteen = Array.from({ length: 13 }, (_, i) => 148 + i * 20);
    const falling = [-544, -576, -608, -640, -672, -704, -736, -768, -864];
    const space = addressSpaceFor('driver');
    const places = asked.map((bytes) => space.take(bytes * MiB) / MiB);
    expect(places).toEqual([414, 0, ...thirteen, 490, ...falling]);
  });

  it('goes one way when it is told to', () => {
    const falling = addressSpaceFor('falling');
    const rising = addressSpaceFor('rising');
    const sizes = [20, 2, 40];
    expect(sizes.map((bytes) => falling.take(bytes))).toEqual([-20, -22, -62]);
    expect(sizes.map((bytes) => rising.take(bytes))).toEqual([0, 20, 22]);
  });

  it('agrees with a driver that looks at every range, each time', () => {
    const size = fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(1, 1, 10, 16, 32, 300));
    const step = fc.oneof(
      { weight: 3, arbitrary: size.map((count) => ({ bytes: count * 2 * MiB })) },
      { weight: 2, arbitrary: fc.nat(100).map((which) => ({ which })) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const space = addressSpaceFor('driver');
        const plain = new PlainDriver();
        const live: Range[] = [];
        for (const one of steps) {
          if ('bytes' in one) {
            const start = space.take(one.bytes);
            expect(start).toBe(plain.take(one.bytes));
            live.push({ start, end: start + one.bytes });
            continue;
          }
          const [gone] = live.splice(one.which % Math.max(live.length, 1), 1);
          if (gone === undefined) continue;
          space.give(gone.start, gone.end - gone.start);
          plain.give(gone.start);
        }
      }),
      { numRuns: 100 },
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

/** The rules of the driver without any bookkeeping of holes. */
class PlainDriver {
  readonly #lower = { start: -512 * MiB, end: 0 };
  readonly #upper = { start: 0, end: 512 * MiB };
  #regions: Range[] = [this.#lower, this.#upper];
  #used: Range[] = [
    { start: -512 * MiB, end: -6 * MiB },
    // Kept for the first small segment.
    { start: 414 * MiB, end: 416 * MiB },
    { start: 416 * MiB, end: 490 * MiB },
  ];
  #untouched = true;

  take(bytes: number): number {
    const first = this.#untouched;
    this.#untouched = false;
    if (first && bytes === 2 * MiB) return 414 * MiB;
    const start = this.#hole(bytes) ?? this.#newRegion(bytes);
    this.#used.push({ start, end: start + bytes });
    return start;
  }

  give(start: number): void {
    this.#used = this.#used.filter((range) => range.start !== start);
    const isUsed = (region: Range) =>
      region === this.#lower ||
      region === this.#upper ||
      this.#used.some((range) => range.start >= region.start && range.end <= region.end);
    this.#regions = this.#regions.filter(isUsed);
  }

  #hole(bytes: number): number | undefined {
    for (const region of this.#regions.toSorted((a, b) => a.start - b.start)) {
      const inside = this.#used
        .filter(({ start }) => start >= region.start && start < region.end)
        .toSorted((a, b) => a.start - b.start);
      let from = region.start;
      for (const { start, end } of [...inside, { start: region.end, end: region.end }]) {
        if (start - from >= bytes) return from;
        from = end;
      }
    }
    return undefined;
  }

  #newRegion(bytes: number): number {
    const length = Math.ceil(bytes / (32 * MiB)) * 32 * MiB;
    const fromTop = this.#regions.toSorted((a, b) => b.start - a.start);
    const above = fromTop.find(
      ({ start }, at) => start - (fromTop[at + 1]?.end ?? -Infinity) >= length,
    );
    const end = above?.start ?? 0;
    this.#regions.push({ start: end - length, end });
    return end - length;
  }
}
