import { type Band, columns, emptyBand, HistoryLevel, mergeBand } from './history-level.js';

export interface ThinningSizes {
  /** Samples kept each by itself. */
  readonly samples: number;
  /** Buckets on each coarser level, an even number. */
  readonly buckets: number;
  readonly coarserLevels: number;
  /** So many of the oldest buckets of a level become one of the next. */
  readonly fold: number;
}

/** An hour at 10 Hz and a little more, then four levels: below 4 MB in all. */
const defaultSizes: ThinningSizes = { samples: 36_864, buckets: 4096, coarserLevels: 4, fold: 8 };

/**
 * All samples ever added, the last hour (at 10 Hz) each by itself and older ones in ever wider
 * buckets: 8, 64, 512, then 4096 samples. When the coarsest level is full its neighbours are
 * joined two by two, so the whole never grows, and as a bucket keeps the min and max of what it
 * stands for, no peak is lost.
 */
export class Thinning {
  /** Finest first. The coarser ones are made together when the first sample grows old. */
  readonly #levels: HistoryLevel[];
  readonly #sizes: ThinningSizes;
  readonly #bands: readonly Band[] = columns.map(emptyBand);
  readonly #one = emptyBand();

  constructor(sizes: ThinningSizes = defaultSizes) {
    this.#sizes = sizes;
    this.#levels = [HistoryLevel.ofSamples(sizes.samples)];
  }

  /** Oldest data first. */
  get levels(): readonly HistoryLevel[] {
    return this.#levels.toReversed();
  }

  get footprintBytes(): number {
    return this.#levels.reduce((sum, level) => sum + level.footprintBytes, 0);
  }

  /** One value a column, NaN where it is unknown. Times never fall. */
  add(seconds: number, values: readonly number[]): void {
    this.#makeRoom(0).pushSample(seconds, values);
  }

  #makeRoom(depth: number): HistoryLevel {
    const level = this.#level(depth);
    if (!level.full) return level;
    if (depth === this.#sizes.coarserLevels) return this.#halve(level);
    const next = this.#makeRoom(depth + 1);
    this.#moveOldest(level, next, this.#sizes.fold);
    return level;
  }

  #level(depth: number): HistoryLevel {
    const { buckets, coarserLevels } = this.#sizes;
    // All at once: from here on the footprint is the same for ever.
    if (depth === this.#levels.length) {
      for (let made = 0; made < coarserLevels; made++) {
        this.#levels.push(HistoryLevel.ofBuckets(buckets));
      }
    }
    const level = this.#levels[depth];
    if (!level) throw new RangeError(`There is no level ${depth}.`);
    return level;
  }

  /** Takes each pair from the front and puts it back as one at the end: a full turn of the ring. */
  #halve(level: HistoryLevel): HistoryLevel {
    for (let pairs = level.length / 2; pairs > 0; pairs--) this.#moveOldest(level, level, 2);
    return level;
  }

  #moveOldest(from: HistoryLevel, to: HistoryLevel, count: number): void {
    const firstSeconds = from.firstSeconds(0);
    const lastSeconds = from.lastSeconds(count - 1);
    for (const [column, band] of this.#bands.entries()) {
      Object.assign(band, emptyBand());
      for (let index = 0; index < count; index++) {
        from.read(index, column, this.#one);
        mergeBand(band, this.#one);
      }
    }
    from.dropOldest(count);
    to.push(firstSeconds, lastSeconds, this.#bands);
  }
}
