import { isKnown, type Known } from '../../../units/known.js';
import { correctEstimate, type MeasuredRun } from '../../corrections.js';
import type { NeedEvidence } from '../../store/records.js';
import type { Need } from '../../types.js';

/** The assumed need of a job, and the reason. */
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
  /** The measurements of earlier runs of the same workload. */
  readonly runs: readonly MeasuredRun[];
  /** The largest reservation that each device of the job could ever get. */
  readonly offerBytes: number;
}

/**
 * Decides the bytes to reserve: the stated need, else the measured one, else the estimate. An
 * unknown job gets a whole device for its first run. So does a job that ran out of memory on a
 * whole device and still succeeded with a smaller batch: it will again.
 */
export function judgeNeed(facts: NeedFacts): JudgedNeed {
  const { gpus, statedBytes: bytes, estimatedBytes, runs, offerBytes } = facts;
  const evidence = { estimatedBytes, runs: runs.length };
  if (bytes !== undefined) {
    const peaks = runs.map(({ peakBytes }) => peakBytes);
    const maxPeakBytes = peaks.length === 0 ? 'unknown' : Math.max(...peaks);
    const reason = { code: 'stated', bytes, runs: runs.length, maxPeakBytes } as const;
    return {
      need: { bytes, basis: 'stated', gpus },
      evidence: { ...evidence, reason },
      alone: false,
    };
  }
  const corrected = correctEstimate(estimatedBytes, runs);
  if (corrected === undefined) {
    return {
      need: { bytes: offerBytes, basis: 'unknown', gpus },
      evidence: { ...evidence, reason: { code: 'no-estimate', traceFailure: null } },
      alone: true,
    };
  }
  const { basis, reason } = corrected;
  if (reason.code === 'measured' && corrected.bytes > offerBytes && fittedBefore(facts)) {
    return {
      need: { bytes: offerBytes, basis, gpus },
      evidence: { ...evidence, reason: { ...reason, wholeDevice: true } },
      alone: true,
    };
  }
  return {
    need: { bytes: corrected.bytes, basis, gpus },
    evidence: { ...evidence, reason },
    alone: false,
  };
}

function fittedBefore({ runs, offerBytes }: NeedFacts): boolean {
  return runs.some(({ askedBytes, peakBytes }) => askedBytes === 'none' && peakBytes <= offerBytes);
}

/** The figure that was known before, where a job is judged again. */
export function estimateOf(evidence: NeedEvidence | undefined): Known<number> {
  const bytes = evidence?.estimatedBytes ?? 'unknown';
  return isKnown(bytes) ? bytes : 'unknown';
}
