import { defaultLoadLine } from '../device/load-line.js';
import { formatBytes } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import { median } from '../watch/diagnosis/growth.js';

/** The measurements of one batch size. */
export interface Observation {
  readonly batch: number;
  readonly peakBytes: number;
  /** It ran out at this peak, so the true need is higher. */
  readonly isAtLeast: boolean;
}

/** Memory as a line over the batch: peak = base + perSample x batch. */
interface MemoryLine {
  readonly baseBytes: number;
  readonly perSampleBytes: number;
  readonly from: 'two sizes' | 'one size' | 'one size and the base';
}

/** Of one peak at most this share is base: a line must rise, or every size would fit. */
const largestBaseShare = 0.95;

/**
 * The line through what was measured: as steep as from the smallest size to the largest, and no
 * measured peak lies above it. Of several peaks of one size the highest counts. A peak at which
 * memory ran out is only used where nothing better is there: the true one is higher, so the line
 * lies too low there.
 *
 * @example
 * fitMemory([{ batch: 8, peakBytes: 900, isAtLeast: false }, { batch: 4, peakBytes: 500, isAtLeast: false }]);
 * // { baseBytes: 100, perSampleBytes: 100, from: 'two sizes' }
 */
export function fitMemory(
  observations: readonly Observation[],
  baseBytes?: number,
): MemoryLine | undefined {
  const clean = highest(observations.filter(({ isAtLeast }) => !isAtLeast));
  const line = throughAll(clean);
  // A line that falls, or starts below 0, says that the sizes did not differ enough to tell.
  if (line !== undefined && line.perSampleBytes > 0 && line.baseBytes >= 0) return line;
  const best = (clean.length > 0 ? clean : highest(observations)).at(-1);
  if (best === undefined) return undefined;
  // Without a base each sample is taken to need more than it does: on the safe side.
  const base = Math.min(baseBytes ?? 0, best.peakBytes * largestBaseShare);
  return {
    baseBytes: base,
    perSampleBytes: (best.peakBytes - base) / best.batch,
    from: baseBytes === undefined ? 'one size' : 'one size and the base',
  };
}

/** The most samples whose peak stays within a budget; 0 where not even one does. */
export function fittingBatch(line: MemoryLine, budgetBytes: number): number {
  return Math.max(0, Math.floor((budgetBytes - line.baseBytes) / line.perSampleBytes));
}

/** Of each size its highest peak, from the smallest size to the largest. */
function highest(observations: readonly Observation[]): readonly Observation[] {
  const bySize = new Map<number, Observation>();
  for (const one of observations) {
    if (one.peakBytes > (bySize.get(one.batch)?.peakBytes ?? 0)) bySize.set(one.batch, one);
  }
  return [...bySize.values()].toSorted((a, b) => a.batch - b.batch);
}

function throughAll(points: readonly Observation[]): MemoryLine | undefined {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined || first === last) return undefined;
  const perSampleBytes = (last.peakBytes - first.peakBytes) / (last.batch - first.batch);
  const bases = points.map(({ batch, peakBytes }) => peakBytes - perSampleBytes * batch);
  return { baseBytes: Math.max(...bases), perSampleBytes, from: 'two sizes' };
}

/** All that is known of a size that ran out of memory. */
interface FailedSize {
  readonly microbatch: number;
  /** The most that was held until it failed, and what was asked for when it did. */
  readonly peakBytes: Known<number>;
  readonly askedBytes: Known<number>;
  /** Bytes held when it failed; the peak is used if this is unknown. */
  readonly heldBytes?: Known<number>;
  readonly limitBytes: Known<number>;
  /** Bytes held before the first sample: weights, optimizer. */
  readonly baseBytes: Known<number>;
  /** Of the same run with the same other settings, this failure not among them. */
  readonly earlier: readonly Observation[];
}

export interface SmallerSize {
  readonly most: number;
  readonly why: string;
}

/**
 * How large a microbatch may be after one that failed: by what was measured. Undefined at 1.
 *
 * By the line through the measured peaks; where that says that the failed size fits, the largest size
 * that did fit, or a quarter. Where only the failure itself is known, its need is a lower bound, so at
 * most half is tried; a request far beyond the limit goes down farther in one step. Half of an odd size
 * is rounded up: an odd batch is then two parts, not three, and 2 is tried between 3 and 1.
 */
export function smallerMicrobatch(failed: FailedSize): SmallerSize | undefined {
  const { microbatch, limitBytes } = failed;
  if (microbatch <= 1) return undefined;
  const half = Math.ceil(microbatch / 2);
  if (!isKnown(limitBytes)) {
    return { most: half, why: `${microbatch} did not fit, and no limit is known: half of it` };
  }
  const budget = limitBytes * defaultLoadLine;
  const base = isKnown(failed.baseBytes) ? failed.baseBytes : undefined;
  const clean = failed.earlier.filter(({ isAtLeast }) => !isAtLeast);
  const fitted = clean.filter(
    ({ batch, peakBytes }) => batch < microbatch && peakBytes <= limitBytes,
  );
  const proven = Math.max(0, ...fitted.map(({ batch }) => batch));
  const measured = fitMemory(clean, base);
  const byLine = measured === undefined ? 0 : fittingBatch(measured, budget);
  if (measured !== undefined && byLine < microbatch && byLine > proven) {
    return {
      most: byLine,
      why: `${microbatch} did not fit; measured: ${formatBytes(Math.round(measured.baseBytes))} and ${formatBytes(Math.round(measured.perSampleBytes))} a sample, so ${byLine} fit under ${formatBytes(Math.round(budget))}`,
    };
  }
  if (proven > 0) {
    // A line by which the size that failed would have fitted is refuted: what went well is still true.
    const quarter = byLine < microbatch ? 0 : Math.floor(microbatch / 4);
    if (proven < quarter)
      return { most: quarter, why: `${microbatch} did not fit: a quarter of it` };
    return { most: proven, why: `${microbatch} did not fit, and ${proven} did before` };
  }
  const needed = neededAtLeast(failed, limitBytes);
  const line = fitMemory([{ batch: microbatch, peakBytes: needed, isAtLeast: true }], base);
  // What is held anyway may pass the load line: then no size stays under it, and half is tried.
  const isRoom = line !== undefined && line.baseBytes < budget;
  const byNeed = isRoom ? fittingBatch(line, budget) : half;
  const most = Math.max(1, Math.min(half, byNeed));
  const more =
    needed > limitBytes
      ? `at least ${formatBytes(needed)} of ${formatBytes(limitBytes)}`
      : `more than the ${formatBytes(limitBytes)} there are`;
  // Where neither was read, a limit of the program's own may have been reached, such as Node's heap.
  const isRead = isKnown(failed.peakBytes) || isKnown(failed.askedBytes);
  return { most, why: isRead ? `${microbatch} needed ${more}` : `${microbatch} did not fit` };
}

function neededAtLeast(failed: FailedSize, limitBytes: number): number {
  const asked = isKnown(failed.askedBytes) ? failed.askedBytes : 0;
  const peak = isKnown(failed.peakBytes) ? failed.peakBytes : limitBytes;
  const { heldBytes = 'unknown' } = failed;
  const held = isKnown(heldBytes) ? heldBytes : peak;
  return Math.max(limitBytes, peak, held + asked);
}

/** Clean steps before a size is tried that was not seen to fail, or that failed long ago. */
export const cleanStepsToGrow = 20;

/** A size below the one that failed is tried as soon as the peaks of so many steps were measured. */
const cleanStepsToSettle = 2;

/** Growing failed again and again: no wait is longer than this many steps. */
const longestWait = 4096;

interface GrowthState {
  readonly microbatch: number;
  /** The batch it is a part of: no microbatch is larger. */
  readonly batch: number;
  readonly cleanSteps: number;
  /** How often growing back ended in an out-of-memory. */
  readonly failedGrowths: number;
  /** The smallest size that failed, and did not fit since. */
  readonly smallestFailed: Known<number>;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  readonly observations: readonly Observation[];
  readonly growAfter?: number;
  /** Whether a size may be tried though nothing was measured: a failure must cost little. */
  readonly mayGuess?: boolean;
}

/**
 * Whether the microbatch may grow back, and to what: what fits under the load line by what was
 * measured, at most twice what it is. Undefined where it should stay.
 *
 * Halving after a failure goes too far down, so sizes between what fits and what failed are tried
 * soon: up to the line, or half way where the line says that even the failed size fits. At the size
 * that failed, and beyond it, only after many clean steps. Each growth that failed doubles the wait.
 */
export function growBack(state: GrowthState): { microbatch: number; why: string } | undefined {
  const { microbatch, batch, limitBytes, smallestFailed, cleanSteps } = state;
  if (microbatch >= batch) return undefined;
  const budget = isKnown(limitBytes) ? limitBytes * defaultLoadLine : 'unknown';
  const fits = isKnown(budget) ? fittingByLine(state, budget) : 'unknown';
  if (!isKnown(fits) && state.mayGuess !== true) return undefined;
  const most = Math.min(batch, microbatch * 2, isKnown(fits) ? fits : batch);
  const failed = isKnown(smallestFailed) ? smallestFailed : Number.POSITIVE_INFINITY;
  const below = most >= failed ? Math.floor((microbatch + failed) / 2) : most;
  // A size that makes no fewer parts would change nothing.
  const isFewer = (size: number) => partsOf(batch, size) < partsOf(batch, microbatch);
  const target = isFewer(below) ? below : most;
  const isSoon = isKnown(smallestFailed) && target < failed && isKnown(fits);
  const after = state.growAfter ?? cleanStepsToGrow;
  const needed = isSoon ? Math.min(after, cleanStepsToSettle) : after;
  const wait = Math.min(longestWait, needed * 2 ** Math.min(state.failedGrowths, 12));
  if (cleanSteps < wait || !isFewer(target)) return undefined;
  const basis =
    isKnown(fits) && isKnown(budget)
      ? `by what was measured ${target} fit under ${formatBytes(Math.round(budget))}`
      : `${target} were not tried since`;
  return { microbatch: target, why: `${cleanSteps} steps went well; ${basis}` };
}

function fittingByLine(state: GrowthState, budgetBytes: number): Known<number> {
  const line = fitMemory(
    state.observations.filter(({ isAtLeast }) => !isAtLeast),
    isKnown(state.baseBytes) ? state.baseBytes : undefined,
  );
  return line === undefined ? 'unknown' : fittingBatch(line, budgetBytes);
}

/**
 * The size of the largest part when a batch is cut into as few parts as fit, all of nearly the same
 * size: no part is much smaller than the others, so that no lone sample is left for BatchNorm.
 *
 * @example
 * evenPart(9, 8); // 5: parts of 5 and 4
 */
export function evenPart(batch: number, most: number): number {
  if (batch <= 0) return 0;
  return Math.ceil(batch / partsOf(batch, most));
}

/** How many parts of at most this size a batch has. */
function partsOf(batch: number, most: number): number {
  return Math.ceil(batch / Math.max(1, most));
}

/** The memory of one step: its largest microbatch, the bytes held before it, and its peak. */
export interface StepReading {
  readonly step: number;
  readonly microbatch: number;
  readonly baseBytes: number;
  readonly peakBytes: number;
}

/** All that is known before a step. */
interface StepAhead {
  readonly step: number;
  readonly microbatch: number;
  /** Bytes held now, before the first sample. */
  readonly baseBytes: number;
  readonly limitBytes: Known<number>;
  /** Of the last steps, the newest last. */
  readonly readings: readonly StepReading[];
  /** Sizes that fitted, with what is held now. */
  readonly observations: readonly Observation[];
}

/** A size that will be too large within so many steps is too large; or twice those since the last look. */
const leastStepsAhead = 4;

/** Growth counts once it was seen this often: what comes once (optimizer states) is not growth. */
const leastRises = 3;

/**
 * Two sizes tell what a sample needs; a part of a step's memory is the same for every size
 * (gradients), but not more of it than this.
 */
const leastSampleShare = 0.25;

/**
 * A smaller microbatch where this one will pass the load line: by what is held now, by the last peak of
 * this size, and by how both grow from step to step. Undefined where it may stay, or where nothing is
 * smaller. It removes half at most, unless memory would run out.
 *
 * @example
 * keepBelow({
 *   step: 2, microbatch: 8, baseBytes: 500, limitBytes: 1000, observations: [],
 *   readings: [{ step: 1, microbatch: 8, baseBytes: 400, peakBytes: 880 }],
 * })?.microbatch; // 6
 */
export function keepBelow(ahead: StepAhead): { microbatch: number; why: string } | undefined {
  const { microbatch, limitBytes, readings } = ahead;
  const own = readings.filter((reading) => reading.microbatch === microbatch);
  const last = own.at(-1);
  if (last === undefined || !isKnown(limitBytes) || microbatch <= 1) return undefined;
  const steps = Math.max(leastStepsAhead, 2 * (ahead.step - last.step));
  const held = [...readings, { ...last, step: ahead.step, baseBytes: ahead.baseBytes }];
  const baseGrowth = growth(held.map(({ step, baseBytes }) => [step, baseBytes]));
  const workGrowth = growth(own.map((one) => [one.step, one.peakBytes - one.baseBytes]));
  const base = ahead.baseBytes + baseGrowth * steps;
  const work = Math.max(0, last.peakBytes - last.baseBytes) + workGrowth * steps;
  const budget = limitBytes * defaultLoadLine;
  if (base + work <= budget) return undefined;
  const runsOut = base + work > limitBytes;
  // What is held anyway lies above the load line, and no size changes that.
  if (base >= budget && !runsOut) return undefined;
  const perSample = sampleBytes(ahead.observations, work / microbatch);
  const fits = microbatch - Math.ceil((base + work - budget) / perSample);
  const least = runsOut ? 1 : Math.floor(microbatch / 2);
  const next = Math.max(1, least, fits);
  const grows = baseGrowth + workGrowth;
  const rate = grows > 0 ? `, growing by ${formatBytes(Math.round(grows))} a step` : '';
  const need = formatBytes(Math.round(base + work));
  const why = `${microbatch} samples will need ${need} of ${formatBytes(limitBytes)}${rate}`;
  return { microbatch: next, why };
}

/** Bytes a step, in the middle of what was seen; 0 where it was seen too seldom, or falls. */
function growth(points: readonly (readonly [step: number, bytes: number])[]): number {
  const rises = points.flatMap(([step, bytes], index) => {
    const before = points[index - 1];
    return before === undefined || step <= before[0]
      ? []
      : [(bytes - before[1]) / (step - before[0])];
  });
  return rises.length < leastRises ? 0 : Math.max(0, median(rises));
}

function sampleBytes(observations: readonly Observation[], share: number): number {
  const sorted = observations.toSorted((a, b) => a.batch - b.batch);
  const [small] = sorted;
  const large = sorted.at(-1);
  if (small === undefined || large === undefined || large.batch <= small.batch) return share;
  const slope = (large.peakBytes - small.peakBytes) / (large.batch - small.batch);
  return Math.min(share, Math.max(slope, leastSampleShare * share));
}
