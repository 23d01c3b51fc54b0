import { formatBytes } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import { correctEstimate, type MeasuredRun } from '../../corrections.js';
import type { NeedEvidence } from '../../store/records.js';
import type { Need } from '../../types.js';

/** What a job is taken to need, and why. */
export interface JudgedNeed {
  readonly need: Need;
  readonly evidence: NeedEvidence;
  /** Unknown: it gets a whole device. */
  readonly alone: boolean;
}

export interface NeedFacts {
  readonly gpus: number;
  readonly statedBytes: number | undefined;
  readonly estimatedBytes: Known<number>;
  /** What earlier runs of the same workload measured. */
  readonly runs: readonly MeasuredRun[];
  /** The most that each device of the job could ever be promised. */
  readonly offerBytes: number;
}

/**
 * What to reserve: what was stated; else what was measured; else what was estimated. A job of which
 * nothing is known gets a whole device for its first run. So is one that ran out of memory on all that there is and still
 * came to its end with a smaller batch: it will again.
 */
export function judgeNeed(facts: NeedFacts): JudgedNeed {
  const { gpus, statedBytes, estimatedBytes, runs, offerBytes } = facts;
  if (statedBytes !== undefined) {
    const most = Math.max(0, ...runs.map(({ peakBytes }) => peakBytes));
    const seen =
      runs.length === 0 ? '' : ` ${count(runs.length)} of it took ${formatBytes(most)} at most.`;
    return {
      need: { bytes: statedBytes, basis: 'stated', gpus },
      evidence: {
        why: `Stated: ${formatBytes(statedBytes)}.${seen}`,
        estimatedBytes,
        runs: runs.length,
      },
      alone: false,
    };
  }
  const corrected = correctEstimate(estimatedBytes, runs);
  const evidence = { estimatedBytes, runs: runs.length };
  if (corrected === undefined) {
    const why = 'No estimate yet: it gets a whole device for its first run, which is measured.';
    return {
      need: { bytes: offerBytes, basis: 'unknown', gpus },
      evidence: { ...evidence, why },
      alone: true,
    };
  }
  const { bytes, basis, why } = corrected;
  if (basis === 'measured' && bytes > offerBytes && fittedBefore(facts)) {
    return {
      need: { bytes: offerBytes, basis, gpus },
      evidence: { ...evidence, why: `${why} It is given all of a device, as when it succeeded.` },
      alone: true,
    };
  }
  return { need: { bytes, basis, gpus }, evidence: { ...evidence, why }, alone: false };
}

function fittedBefore({ runs, offerBytes }: NeedFacts): boolean {
  return runs.some(({ askedBytes, peakBytes }) => askedBytes === 'none' && peakBytes <= offerBytes);
}

function count(runs: number): string {
  return runs === 1 ? 'The one run' : `The ${runs} runs`;
}

/** The figure that was known before, where a job is judged again. */
export function estimateOf(evidence: NeedEvidence | undefined): Known<number> {
  const bytes = evidence?.estimatedBytes ?? 'unknown';
  return isKnown(bytes) ? bytes : 'unknown';
}
