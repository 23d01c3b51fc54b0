import { defaultLoadLine } from '../../device/load-line.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { median } from '../../watch/diagnosis/growth.js';
import type { Observation } from './fit.js';

/** What one step had: its largest microbatch, what was held before it, and its peak. */
export interface StepReading {
  readonly step: number;
  readonly microbatch: number;
  readonly baseBytes: number;
  readonly peakBytes: number;
}

/** All that is known before a step. */
export interface StepAhead {
  readonly step: number;
  readonly microbatch: number;
  /** What is held now, before its first sample. */
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
