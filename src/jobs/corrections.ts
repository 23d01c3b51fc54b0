import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { Attempt } from '../run/types.js';
import { MiB } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import type { Basis } from './basis.js';
import type { NeedReason } from './reasons/types.js';

/** What an attempt showed of its workload. */
export interface MeasuredRun {
  readonly peakBytes: number;
  /** It ran out of memory: it needs more than its peak, at least by what it asked for last. */
  readonly askedBytes: Known<number> | 'none';
  readonly seconds: number;
}

/** One run may have been a lucky one; each further run makes that less likely. */
const firstMargin = 0.1;
/** An estimate that says the same is as good as a second run: it knows nothing of the first. */
const agreedMargin = 0.05;
/** The estimate is an upper end: a run this far below it bears it out, one further down is another case. */
const agreement = 0.75;
const leastMargin = 0.02;
const leastMarginBytes = 64 * MiB;
/** How much more is tried where a run ran out of memory and what it asked for is unknown. */
const outOfMemoryMargin = 0.25;

export interface Correction {
  readonly bytes: number;
  readonly basis: Extract<Basis, 'estimated' | 'measured'>;
  /** What the figure rests on. */
  readonly reason: Extract<NeedReason, { code: 'estimated' | 'measured' }>;
}

/**
 * What to reserve for a workload that ran before: the largest peak of its runs and a margin that
 * shrinks with their number and grows with their spread, and is half as large where they bear the
 * estimate out; never less than was measured. Without a run it is the estimate. Undefined where there
 * is neither: such a job gets a whole device for its first run.
 *
 * @example
 * correctEstimate(8e9, [{ peakBytes: 6e9, askedBytes: 'none', seconds: 60 }])?.bytes; // 6600000000
 */
export function correctEstimate(
  estimatedBytes: Known<number>,
  runs: readonly MeasuredRun[],
): Correction | undefined {
  const whole = runs.filter(({ askedBytes }) => askedBytes === 'none').map((run) => run.peakBytes);
  const cut = runs.filter(({ askedBytes }) => askedBytes !== 'none');
  if (runs.length === 0) {
    if (!isKnown(estimatedBytes)) return undefined;
    const reason = { code: 'estimated', bytes: estimatedBytes, traced: false } as const;
    return { bytes: estimatedBytes, basis: 'estimated', reason };
  }
  const peaks = runs.map(({ peakBytes }) => peakBytes);
  const most = Math.max(...peaks);
  const spread = whole.length > 1 ? Math.max(...whole) - Math.min(...whole) : 0;
  const agrees =
    isKnown(estimatedBytes) && most <= estimatedBytes && most >= estimatedBytes * agreement;
  const share = Math.max(leastMargin, (agrees ? agreedMargin : firstMargin) / runs.length);
  const marginBytes = Math.ceil(Math.max(most * share, spread / 2, leastMarginBytes));
  // A run that was cut short tells the least that is needed; an estimate above it still counts.
  const floors = cut.map(({ peakBytes, askedBytes }) =>
    typeof askedBytes === 'number'
      ? peakBytes + askedBytes + marginBytes
      : Math.ceil(peakBytes * (1 + outOfMemoryMargin)),
  );
  const hoped = whole.length === 0 && isKnown(estimatedBytes) ? estimatedBytes : 0;
  const bytes = Math.max(whole.length > 0 ? most + marginBytes : 0, hoped, most, ...floors);
  return {
    bytes,
    basis: 'measured',
    reason: {
      code: 'measured',
      runs: runs.length,
      outOfMemory: cut.length,
      maxPeakBytes: most,
      marginBytes: bytes - most,
      estimatedBytes,
      wholeDevice: false,
    },
  };
}

/**
 * What an attempt teaches; undefined where its peak was not measured. A program counts what it has
 * itself; what the device loses beside that (the CUDA context) comes on top.
 */
export function measuredRun(attempt: Attempt, besideBytes = 0): MeasuredRun | undefined {
  const { peakBytes, source, peakFrom, exitCode, outOfMemory, startedAt, endedAt } = attempt;
  if (!isKnown(peakBytes) || source !== 'measured') return undefined;
  // The peak is that of the launcher alone; its work ran elsewhere.
  if (attempt.launchers !== undefined && attempt.launchers.length > 0) return undefined;
  // Its memory gave way: the peak is that of its limit, not of its need.
  if (attempt.spill !== undefined && attempt.spill.bytesOut + attempt.spill.recomputedSeconds > 0) {
    return undefined;
  }
  // One that broke off for another reason may have been far from what it needs.
  if (exitCode !== 0 && outOfMemory === null) return undefined;
  const seconds = (Date.parse(endedAt) - Date.parse(startedAt)) / 1000;
  return {
    peakBytes: peakFrom === 'sdk' ? peakBytes + besideBytes : peakBytes,
    askedBytes: outOfMemory === null ? 'none' : outOfMemory.askedBytes,
    seconds: Number.isFinite(seconds) ? Math.max(0, seconds) : 0,
  };
}

/** How long runs of a workload took that went to their end: the longest of them. */
export function expectedSeconds(runs: readonly MeasuredRun[]): Known<number> {
  const whole = runs.filter(({ askedBytes }) => askedBytes === 'none');
  return whole.length === 0 ? 'unknown' : Math.max(...whole.map(({ seconds }) => seconds));
}

/** What makes two jobs the same: they should need the same memory. */
export interface WorkloadIdentity {
  readonly command: readonly string[];
  /** Model and settings, where they were told. */
  readonly workload?: Readonly<Record<string, unknown>> | undefined;
  /** Batch, accumulation and the like that the command was run with. */
  readonly settings?: Readonly<Record<string, unknown>> | undefined;
  readonly gpus: number;
}

/**
 * A short name of a workload, the same for commands that differ only in how they are written: where
 * the program lies, `--batch=8` or `--batch 8`, spaces around. Everything else counts: a peak must
 * not be taken from a job that might need less.
 *
 * @example
 * workloadKey({ command: ['/usr/bin/python', 'train.py', '--batch=8'], gpus: 1 }) ===
 *   workloadKey({ command: ['python', 'train.py', '--batch', '8'], gpus: 1 }); // true
 */
export function workloadKey({ command, workload, settings, gpus }: WorkloadIdentity): string {
  const [program = '', ...args] = command.map((word) => word.trim());
  const words = args.flatMap((word) => {
    const [, option, value] = /^(--[\w-]+)=(.*)$/s.exec(word) ?? [];
    return option === undefined ? [word] : [option, value];
  });
  const identity = canonical([[basename(program), ...words], workload, settings, gpus]);
  return createHash('sha256').update(identity).digest('hex').slice(0, 32);
}

/** JSON with sorted keys; what is undefined is as if it were not there. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`);
  return `{${entries.join()}}`;
}
