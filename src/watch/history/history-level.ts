import type { Column } from '../types.js';

/** The columns of a history, in the order in which levels store them. */
export const columns: readonly Column[] = ['used', 'allocated', 'reserved', 'utilization'];

/** One column of a level. Where nothing was known, count is 0 and the rest is NaN. */
interface BucketColumn {
  min: Float64Array;
  mean: Float64Array;
  max: Float64Array;
  /** Known values behind each bucket; absent in the finest level, where a bucket is one sample. */
  count: Float64Array | undefined;
}

/** What `BucketColumn` holds, for one bucket. */
export interface Band {
  min: number;
  mean: number;
  max: number;
  count: number;
}

export function emptyBand(): Band {
  return { min: Number.NaN, mean: Number.NaN, max: Number.NaN, count: 0 };
}

/** Adds what `more` stands for to `band`; a bucket without known values changes nothing. */
export function mergeBand(band: Band, more: Band): void {
  if (more.count === 0) return;
  const count = band.count + more.count;
  band.min = band.count === 0 ? more.min : Math.min(band.min, more.min);
  band.max = band.count === 0 ? more.max : Math.max(band.max, more.max);
  band.mean =
    band.count === 0 ? more.mean : band.mean + (more.mean - band.mean) * (more.count / count);
  band.count = count;
}

/**
 * A ring of buckets, oldest first, at one fineness. The finest level holds single samples: there
 * min, mean and max are the same array, so an hour of samples costs no more than its values.
 */
export class HistoryLevel {
  readonly capacity: number;
  length = 0;
  #start = 0;
  #first: Float64Array;
  #last: Float64Array;
  readonly #columns: readonly BucketColumn[];

  private constructor(capacity: number, allocated: number, single: boolean) {
    this.capacity = capacity;
    this.#first = new Float64Array(allocated);
    this.#last = single ? this.#first : new Float64Array(allocated);
    this.#columns = columns.map(() => {
      const mean = new Float64Array(allocated);
      if (single) return { min: mean, mean, max: mean, count: undefined };
      return {
        min: new Float64Array(allocated),
        mean,
        max: new Float64Array(allocated),
        count: new Float64Array(allocated),
      };
    });
  }

  /** Grows by doubling up to `capacity` samples. */
  static ofSamples(capacity: number): HistoryLevel {
    return new HistoryLevel(capacity, Math.min(256, capacity), true);
  }

  static ofBuckets(capacity: number): HistoryLevel {
    return new HistoryLevel(capacity, capacity, false);
  }

  get full(): boolean {
    return this.length === this.capacity;
  }

  get footprintBytes(): number {
    const arrays = new Set([this.#first, this.#last]);
    for (const { min, mean, max, count } of this.#columns) {
      arrays.add(min).add(mean).add(max);
      if (count) arrays.add(count);
    }
    let bytes = 0;
    for (const array of arrays) bytes += array.byteLength;
    return bytes;
  }

  firstSeconds(index: number): number {
    return this.#first[this.#slot(index)] ?? Number.NaN;
  }

  lastSeconds(index: number): number {
    return this.#last[this.#slot(index)] ?? Number.NaN;
  }

  /** Writes the bucket's column into `into`, which the caller owns: reading allocates nothing. */
  read(index: number, column: number, into: Band): void {
    const slot = this.#slot(index);
    const stored = this.#columns[column];
    into.mean = stored?.mean[slot] ?? Number.NaN;
    into.min = stored?.min[slot] ?? Number.NaN;
    into.max = stored?.max[slot] ?? Number.NaN;
    into.count = stored?.count ? (stored.count[slot] ?? 0) : Number.isNaN(into.mean) ? 0 : 1;
  }

  /** A sample, on the finest level: one value a column, NaN where it is unknown. */
  pushSample(seconds: number, values: readonly number[]): void {
    if (this.length === this.#first.length) this.#grow();
    const slot = this.#slot(this.length);
    this.#first[slot] = seconds;
    for (let column = 0; column < values.length; column++) {
      const stored = this.#columns[column];
      if (stored) stored.mean[slot] = values[column] ?? Number.NaN;
    }
    this.length++;
  }

  /** A bucket, on a coarser level. The caller has made room: the level is not full. */
  push(firstSeconds: number, lastSeconds: number, bands: readonly Band[]): void {
    if (this.length === this.#first.length) this.#grow();
    const slot = this.#slot(this.length);
    this.#first[slot] = firstSeconds;
    this.#last[slot] = lastSeconds;
    for (const [column, band] of bands.entries()) {
      const stored = this.#columns[column];
      if (!stored) continue;
      stored.min[slot] = band.min;
      stored.max[slot] = band.max;
      stored.mean[slot] = band.mean;
      if (stored.count) stored.count[slot] = band.count;
    }
    this.length++;
  }

  dropOldest(count: number): void {
    this.#start = (this.#start + count) % this.#first.length;
    this.length -= count;
  }

  /** Only a level that has never dropped grows, so its oldest is at 0 and a copy keeps the order. */
  #grow(): void {
    const size = Math.min(this.#first.length * 2, this.capacity);
    const grown = new Map<Float64Array, Float64Array>();
    const copy = (array: Float64Array): Float64Array => {
      const known = grown.get(array);
      if (known) return known;
      const larger = new Float64Array(size);
      larger.set(array);
      grown.set(array, larger);
      return larger;
    };
    this.#first = copy(this.#first);
    this.#last = copy(this.#last);
    for (const stored of this.#columns) {
      stored.min = copy(stored.min);
      stored.mean = copy(stored.mean);
      stored.max = copy(stored.max);
      if (stored.count) stored.count = copy(stored.count);
    }
  }

  #slot(index: number): number {
    const slot = this.#start + index;
    return slot < this.#first.length ? slot : slot - this.#first.length;
  }
}
