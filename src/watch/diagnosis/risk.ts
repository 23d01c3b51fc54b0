import type { Known } from '../../units/known.js';
import { type Forecast, type Risk, risks } from '../types.js';
import {
  certain,
  defaultCosts,
  type ForecastCosts,
  isWorthAnAlarm,
  type Probability,
} from './probability.js';

/** What `high` and `critical` mean is a contract: out of memory within so many seconds. */
const riskWithinSeconds: readonly (readonly [Risk, number])[] = [
  ['critical', 15],
  ['high', 60],
  ['medium', 300],
  ['low', Number.POSITIVE_INFINITY],
];

/**
 * 10 s of observed growth supports a 20 s forecast, no further: a second of growth says nothing
 * about the next minute. Acceleration is easily mistaken: it supports a forecast only as far ahead
 * as it was observed. Growth that slows down may stop before the limit, and supports less.
 */
const reach = { straight: 2, accelerates: 1, slows: 0.7 };
/** A shorter growth is a start or a single piece of work, however steep. */
const leastSeenSeconds = 3.5;
/** Growth from the first reading on may be the program's start: it must last longer. */
const startFactor = 2;

/** An expected end, and what speaks for it. */
export interface ExpectedEnd {
  /** Infinity where it levels off before the limit. */
  readonly etaSeconds: number;
  readonly lowSeconds: number;
  readonly highSeconds: number;
  /** For how long the growth has been seen. */
  readonly seenSeconds: number;
  /** Whether it has been there from the first reading on. */
  readonly fromStart: boolean;
  /** Whether the end comes sooner than a straight line would have it, or later. */
  readonly bend: 'accelerates' | 'slows' | 'straight';
}

/** How much is taken already, whether or not it grows. */
export type Fill = 'full' | 'nearly-full' | 'room';

/** The risk and the time that belong together. */
export type Outlook = Pick<Forecast, 'etaSeconds' | 'lowSeconds' | 'highSeconds'> & {
  readonly risk: Risk;
};

/**
 * The one place that decides the risk and the expected time, so that they cannot contradict each
 * other: a time is given only where the observed growth supports it.
 */
export function outlookOf(
  end: ExpectedEnd | undefined,
  fill: Fill,
  probability: Probability = certain,
  costs: ForecastCosts = defaultCosts,
): Outlook {
  if (fill === 'full') return { risk: 'critical', etaSeconds: 0, lowSeconds: 0, highSeconds: 0 };
  if (!end || end.etaSeconds === Number.POSITIVE_INFINITY) {
    const low = end && fill === 'nearly-full' ? secondsOrNever(end.lowSeconds) : 'never';
    return {
      risk: fill === 'nearly-full' ? 'low' : 'none',
      etaSeconds: 'never',
      lowSeconds: low,
      highSeconds: 'never',
    };
  }
  const risk = riskWithinSeconds.find(([, seconds]) => end.etaSeconds <= seconds)?.[0] ?? 'none';
  const lowSeconds = secondsOrNever(end.lowSeconds);
  const highSeconds = secondsOrNever(end.highSeconds);
  if (!isBelieved(end) || !isWorthAnAlarm(probability, end.etaSeconds, costs)) {
    const doubted = isAtLeast(risk, 'high') ? 'medium' : 'low';
    return { risk: doubted, etaSeconds: 'unknown', lowSeconds, highSeconds };
  }
  return { risk, etaSeconds: secondsOrNever(end.etaSeconds), lowSeconds, highSeconds };
}

function isBelieved({ etaSeconds, seenSeconds, fromStart, bend }: ExpectedEnd): boolean {
  const least = leastSeenSeconds * (fromStart ? startFactor : 1);
  return seenSeconds >= least && etaSeconds <= seenSeconds * reach[bend];
}

function secondsOrNever(seconds: number): number | 'never' {
  return Number.isFinite(seconds) ? Math.round(seconds * 1000) / 1000 : 'never';
}

export function isAtLeast(risk: Known<Risk>, least: Risk): boolean {
  return risk !== 'unknown' && risks.indexOf(risk) >= risks.indexOf(least);
}

/** A risk falls only when the lower one has lasted this long, so that it does not flicker. */
const holdSeconds = 3;
/** ... and rises only when it was seen this long. */
const confirmSeconds = 0.5;

/**
 * Keeps the risk from flickering: it rises when confirmed and falls when calm has lasted. Until
 * then the forecast before is shown, whole, so that its time still belongs to its risk.
 */
export class SteadyForecast<T extends { readonly risk: Known<Risk> }> {
  #shown: T | undefined;
  #higherSince = Number.NaN;
  #lowerSince = Number.NaN;

  /** What was seen does not count any more. */
  reset(): void {
    this.#shown = undefined;
    this.#higherSince = Number.NaN;
    this.#lowerSince = Number.NaN;
  }

  update(forecast: T, seconds: number): T {
    const shown = this.#shown;
    const change = shown ? rank(forecast) - rank(shown) : 0;
    this.#higherSince = change > 0 ? firstOf(this.#higherSince, seconds) : Number.NaN;
    this.#lowerSince = change < 0 ? firstOf(this.#lowerSince, seconds) : Number.NaN;
    const holds =
      shown !== undefined &&
      change !== 0 &&
      !(seconds - this.#higherSince >= confirmSeconds) &&
      !(seconds - this.#lowerSince >= holdSeconds);
    if (holds) return shown;
    this.#shown = forecast;
    this.#higherSince = Number.NaN;
    this.#lowerSince = Number.NaN;
    return forecast;
  }
}

function rank({ risk }: { readonly risk: Known<Risk> }): number {
  return risk === 'unknown' ? 0 : risks.indexOf(risk);
}

function firstOf(since: number, seconds: number): number {
  return Number.isNaN(since) ? seconds : since;
}
