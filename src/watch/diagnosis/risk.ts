import type { Known } from '../../units/known.js';
import { type Risk, risks } from '../types.js';

/** What `high` and `critical` mean is a contract: out of memory within so many seconds. */
const riskWithinSeconds: readonly (readonly [Risk, number])[] = [
  ['critical', 15],
  ['high', 60],
  ['medium', 300],
  ['low', 3600],
];

/**
 * Growth seen for a while is believed twice as far ahead, no further: a second of growth says
 * nothing about the next minute.
 */
const reach = 2;
/** Acceleration is easily mistaken: it is believed only as far ahead as it was seen. */
const curveReach = 1;
/** A shorter growth is a start or a single piece of work, however steep. */
const leastSeenSeconds = 3.5;
/** Growth from the first reading on may be the program's start: it must last longer. */
const startFactor = 2;

/** An expected end, and what speaks for it. */
export interface ExpectedEnd {
  readonly etaSeconds: number;
  /** For how long the growth has been seen. */
  readonly seenSeconds: number;
  /** Whether it has been there from the first reading on. */
  readonly fromStart: boolean;
  /** Whether the end comes sooner than a straight line would have it. */
  readonly accelerates: boolean;
}

export function riskOf({ etaSeconds, seenSeconds, fromStart, accelerates }: ExpectedEnd): Risk {
  const risk = riskWithinSeconds.find(([, seconds]) => etaSeconds <= seconds)?.[0] ?? 'none';
  const least = leastSeenSeconds * (fromStart ? startFactor : 1);
  const believedSeconds = seenSeconds * (accelerates ? curveReach : reach);
  const believed = seenSeconds >= least && etaSeconds <= believedSeconds;
  return !believed && isAtLeast(risk, 'high') ? 'medium' : risk;
}

export function isAtLeast(risk: Known<Risk>, least: Risk): boolean {
  return risk !== 'unknown' && risks.indexOf(risk) >= risks.indexOf(least);
}

/** A risk falls only when the lower one has lasted this long, so that it does not flicker. */
const holdSeconds = 3;
/** ... and rises only when it was seen this long. */
const confirmSeconds = 0.5;

/** Keeps the risk from flickering: it rises when confirmed and falls when calm has lasted. */
export class SteadyRisk {
  #risk: Risk = 'none';
  #higherSince = Number.NaN;
  #lowerSince = Number.NaN;

  /** What was seen does not count any more. */
  reset(): void {
    this.#risk = 'none';
    this.#higherSince = Number.NaN;
    this.#lowerSince = Number.NaN;
  }

  update(risk: Risk, seconds: number): Risk {
    const change = risks.indexOf(risk) - risks.indexOf(this.#risk);
    this.#higherSince = change > 0 ? firstOf(this.#higherSince, seconds) : Number.NaN;
    this.#lowerSince = change < 0 ? firstOf(this.#lowerSince, seconds) : Number.NaN;
    if (
      seconds - this.#higherSince >= confirmSeconds ||
      seconds - this.#lowerSince >= holdSeconds
    ) {
      this.#risk = risk;
      this.#higherSince = Number.NaN;
      this.#lowerSince = Number.NaN;
    }
    return this.#risk;
  }
}

function firstOf(since: number, seconds: number): number {
  return Number.isNaN(since) ? seconds : since;
}
