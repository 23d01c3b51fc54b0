import {
  columnsOf,
  type EnvelopePoint,
  median,
  pairwiseSlopes,
  quantile,
  steadyGrowth,
} from './growth.js';
import type { TrackGrowth } from './track.js';

/** Seconds whose usual change tells a turn from noise. */
const changesKept = 24;
/** Troughs that may form a row, and those before them that it must leave behind. */
const rowTroughs = 10;
const troughsKept = 64;
/** Three whole cycles. */
const fewestTroughs = 4;
/** Cycles that are over sooner say nothing about a leak. */
const leastSpanSeconds = 12;
/** How far a trough may lie off the line, as a share of the rise: fewer must be more even. */
const offsetShares: Readonly<Record<number, number>> = { 4: 0.025, 5: 0.04, 6: 0.06 };
const usualOffsetShare = 0.08;
const beginningShare = 0.15;
/** ... and as a share of the swing: the same work comes back to the same floor. */
const swingShare = 0.04;
/** So many of them may be farther off: a reading between two steps misses the bottom. */
const strayShare = 0.2;
/** What stays raises the peaks of work as well as its troughs, by about the same. */
const leastPeakRatio = 0.4;
const maxPeakRatio = 2.5;
/** The second half of a rise that levels off is less than this share of the first. */
const levellingRatio = 0.6;

interface Trough extends EnvelopePoint {
  /** The highest value since the trough before it. */
  readonly peakBytes: number;
}

/**
 * The lowest value of each cycle of work, however long the cycles are, and whether these lows rise
 * evenly. A cycle turns where the low of a second differs from the last turn by more than seconds
 * usually differ.
 */
export class Troughs {
  #second = Number.NaN;
  #low: EnvelopePoint = { seconds: Number.NaN, bytes: Number.NaN };
  #high = Number.NEGATIVE_INFINITY;
  #lastLow = Number.NaN;
  readonly #changes: number[] = [];
  /** Where the series began is not a trough that work came back to. */
  #falling = false;
  #turn: EnvelopePoint | undefined;
  #peakBytes = Number.NEGATIVE_INFINITY;
  readonly #troughs: Trough[] = [];
  #known: { last: Trough | undefined; growth: TrackGrowth | undefined } | undefined;

  add(seconds: number, bytes: number): void {
    const second = Math.floor(seconds);
    if (second === this.#second) {
      if (bytes < this.#low.bytes) this.#low = { seconds, bytes };
      if (bytes > this.#high) this.#high = bytes;
      return;
    }
    if (!Number.isNaN(this.#second)) this.#take(this.#low, this.#high);
    this.#second = second;
    this.#low = { seconds, bytes };
    this.#high = bytes;
  }

  #take(low: EnvelopePoint, high: number): void {
    if (!Number.isNaN(this.#lastLow)) {
      this.#changes.push(Math.abs(low.bytes - this.#lastLow));
      if (this.#changes.length > changesKept) this.#changes.shift();
    }
    this.#lastLow = low.bytes;
    this.#peakBytes = Math.max(this.#peakBytes, high);
    this.#turn ??= low;
    const beyond = this.#falling ? low.bytes <= this.#turn.bytes : low.bytes >= this.#turn.bytes;
    if (beyond) {
      this.#turn = low;
      return;
    }
    if (Math.abs(low.bytes - this.#turn.bytes) < median(this.#changes)) return;
    if (this.#falling) {
      this.#troughs.push({ ...this.#turn, peakBytes: this.#peakBytes });
      if (this.#troughs.length > troughsKept) this.#troughs.shift();
      this.#peakBytes = high;
    }
    this.#falling = !this.#falling;
    this.#turn = low;
  }

  /** How the troughs rise, the longest row of them that rises evenly. */
  growth(leastRise: number): TrackGrowth | undefined {
    const last = this.#troughs.at(-1);
    // It changes with a new trough only.
    if (this.#known?.last !== last) this.#known = { last, growth: this.#longestRise(leastRise) };
    return this.#known?.growth;
  }

  /** The last three troughs where they rise evenly: too few to tell, too many to say none. */
  beginning(leastRise: number): { from: EnvelopePoint; to: EnvelopePoint } | undefined {
    const [a, b, c] = this.#troughs.slice(-3);
    if (!a || !b || !c || c.bytes - a.bytes < leastRise) return undefined;
    if (this.#troughs.some(({ bytes }) => bytes > c.bytes)) return undefined;
    const expected =
      a.bytes + ((c.bytes - a.bytes) * (b.seconds - a.seconds)) / (c.seconds - a.seconds);
    const swing = median([a, b, c].map(({ bytes, peakBytes }) => peakBytes - bytes));
    const tolerance = Math.min(beginningShare * (c.bytes - a.bytes), swingShare * swing);
    return Math.abs(b.bytes - expected) <= tolerance ? { from: a, to: c } : undefined;
  }

  /**
   * Whether too few troughs lie in a growth for `growth` to judge them, and peaks rose as they did:
   * where an allocator gives back its cache, troughs may rise with the work, and peaks do not.
   */
  peaksFollow({ fromSeconds, slope }: TrackGrowth): boolean {
    const row = this.#troughs.filter(({ seconds }) => seconds >= fromSeconds);
    return row.length < fewestTroughs && followed(row, slope);
  }

  #longestRise(leastRise: number): TrackGrowth | undefined {
    const n = this.#troughs.length;
    const highest = Math.max(...this.#troughs.slice(0, -1).map(({ bytes }) => bytes));
    if ((this.#troughs.at(-1)?.bytes ?? 0) <= highest) return undefined;
    for (let first = Math.max(0, n - rowTroughs); first + fewestTroughs <= n; first++) {
      const growth = evenRise(this.#troughs.slice(first), leastRise);
      if (growth) return growth;
    }
    return undefined;
  }
}

function followed(troughs: readonly Trough[], slope: number): boolean {
  const peaks = troughs.map(({ seconds, peakBytes }) => ({ seconds, bytes: peakBytes }));
  const peakSlope = quantile(pairwiseSlopes(columnsOf(peaks)), 0.5);
  return peakSlope >= leastPeakRatio * slope && peakSlope <= maxPeakRatio * slope;
}

function evenRise(troughs: readonly Trough[], leastRise: number): TrackGrowth | undefined {
  const n = troughs.length;
  const from = troughs[0]?.seconds ?? 0;
  const span = (troughs.at(-1)?.seconds ?? 0) - from;
  if (span < leastSpanSeconds) return undefined;
  const slope = quantile(pairwiseSlopes(columnsOf(troughs)), 0.5);
  const rise = slope * span;
  if (!(rise >= leastRise)) return undefined;
  const levels = troughs.map(({ seconds, bytes }) => bytes - slope * (seconds - from));
  const level = median(levels);
  const swing = median(troughs.map(({ bytes, peakBytes }) => peakBytes - bytes));
  const tolerance = Math.min((offsetShares[n] ?? usualOffsetShare) * rise, swingShare * swing);
  const strays = levels.filter((one) => Math.abs(one - level) > tolerance).length;
  if (strays > Math.floor(strayShare * n)) return undefined;
  if (!followed(troughs.slice(1), slope)) return undefined;
  const growth = steadyGrowth(columnsOf(troughs), leastRise, fewestTroughs);
  if (!growth || growth.ratio < levellingRatio) return undefined;
  return { ...growth, shape: 'envelope' };
}
