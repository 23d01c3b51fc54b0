import type { Known } from '../../units/known.js';
import { type Forecast, type Risk, risks } from '../types.js';
import { type ForecastCosts, type Probability, riskAt, riskOf } from './probability.js';

/** An expected end: Infinity where it levels off before the limit. */
export interface ExpectedEnd {
  readonly etaSeconds: number;
  readonly lowSeconds: number;
  readonly highSeconds: number;
}

/** How much is taken already, whether or not it grows. */
export type Fill = 'full' | 'nearly-full' | 'room';

/** The risk and the time that belong together. */
export type Outlook = Pick<Forecast, 'etaSeconds' | 'lowSeconds' | 'highSeconds'> & {
  readonly risk: Risk;
};

/**
 * The one place that decides the risk and the expected time, so that they cannot contradict each
 * other: a time is given only where it is likely enough.
 */
export function outlookOf(
  end: ExpectedEnd | undefined,
  fill: Fill,
  probability: Probability,
  costs?: ForecastCosts,
): Outlook {
  if (fill === 'full') return { risk: 'critical', etaSeconds: 0, lowSeconds: 0, highSeconds: 0 };
  if (!end || end.etaSeconds === Number.POSITIVE_INFINITY) {
    const low = end && fill === 'nearly-full' ? secondsOrNever(end.lowSeconds) : 'never';
    const risk = riskOf(probability, undefined, costs);
    return {
      risk: fill === 'nearly-full' && risk === 'none' ? 'low' : risk,
      etaSeconds: isAtLeast(risk, 'low') ? 'unknown' : 'never',
      lowSeconds: isAtLeast(risk, 'low') ? 'unknown' : low,
      highSeconds: isAtLeast(risk, 'low') ? 'unknown' : 'never',
    };
  }
  const risk = riskOf(probability, end.etaSeconds, costs);
  // A time that is not believed is not told: it would contradict the risk.
  const isBelieved = isAtLeast(risk, 'medium') && risk === riskAt(end.etaSeconds);
  return {
    risk,
    etaSeconds: isBelieved ? secondsOrNever(end.etaSeconds) : 'unknown',
    lowSeconds: secondsOrNever(end.lowSeconds),
    highSeconds: secondsOrNever(end.highSeconds),
  };
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
