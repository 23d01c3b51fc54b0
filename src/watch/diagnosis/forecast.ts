import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Forecast, MemoryPoint, Risk } from '../types.js';
import type { Cells } from './cells.js';
import { isStraight } from './growth.js';
import { isAtLeast, riskOf, SteadyRisk } from './risk.js';
import { type TimeToLimit, timeToLimit } from './time-to-limit.js';
import { spanOf, Track, type TrackGrowth } from './track.js';

/** Less than this says nothing. */
const leastSeconds = 3;
/** New conclusions are drawn this often in the time of the points, whatever the sampling rate ... */
const concludeSeconds = 0.5;
/** ... and this often while nothing grows. */
const concludeCalmSeconds = 1;
/** Growth that began this soon after the first reading may be the program's start. */
const startSeconds = 0.5;
/** When this share of the limit has come back, what was concluded before is over. */
const cameBackShare = 0.05;
/** Closer to the limit than this, even level memory is a small risk. */
const fullShare = 0.95;

export interface Forecaster {
  add(point: MemoryPoint): void;
  forecast(): Forecast;
  /** The growth that the forecast rests on, where there is one. */
  growth(): TrackGrowth | undefined;
  /** The most that was held, and live where an allocator reports it, in the last half minute. */
  recentPeaks(): { readonly heldBytes: number; readonly liveBytes: number | undefined };
}

interface Expectation {
  readonly growth: TrackGrowth;
  readonly time: TimeToLimit;
  readonly subject: 'held' | 'live';
}

/**
 * Expects when memory will run out, from the past alone. It follows two series: what is held, whose
 * peaks rise only when what was cached did not serve; and the floor of what is live, which rises
 * under a leak even while the cache still covers it. The sooner of the two counts. `shared` cells,
 * where given, hold the same two series and are fed by their owner.
 *
 * @example
 * const forecaster = createForecaster();
 * for (const point of points) forecaster.add(point);
 * forecaster.forecast().risk; // 'high' when the limit is expected within a minute
 */
export function createForecaster(shared?: { held: Cells; live: Cells }): Forecaster {
  const held = new Track('peaks', shared?.held);
  const live = new Track('floor', shared?.live);
  const steady = new SteadyRisk();
  let latest: MemoryPoint | undefined;
  let firstSeconds = Number.NaN;
  let concluded: MemoryPoint | undefined;
  let grows: TrackGrowth | undefined;
  let forecast = unknownForecast('Nothing has been read yet.');

  function conclude(point: MemoryPoint, cameBack: boolean): Forecast {
    const seen = point.seconds - firstSeconds;
    if (seen < leastSeconds) {
      return unknownForecast(`Only ${formatSeconds(seen)} seen; ${leastSeconds} s are needed.`);
    }
    const expectations: Expectation[] = [];
    const heldGrowth = held.growth();
    if (heldGrowth) {
      const time = timeToLimit(heldGrowth, point.seconds, point.limitBytes);
      expectations.push({ growth: heldGrowth, time, subject: 'held' });
    }
    const liveGrowth = point.liveBytes === undefined ? undefined : live.growth();
    if (liveGrowth) {
      // Work peaks above the floor; those peaks meet the limit first.
      const above = Math.max(0, live.recentPeak() - liveGrowth.endBytes);
      const time = timeToLimit(liveGrowth, point.seconds, point.limitBytes - above);
      expectations.push({ growth: liveGrowth, time, subject: 'live' });
    }
    const soonest = expectations.toSorted((a, b) => a.time.seconds - b.time.seconds)[0];
    grows = soonest?.growth;
    const full = point.heldBytes >= fullShare * point.limitBytes;
    const risk = soonest
      ? riskOf({
          etaSeconds: soonest.time.seconds,
          seenSeconds: spanOf(soonest.growth),
          fromStart: soonest.growth.fromSeconds - firstSeconds < startSeconds,
          accelerates: soonest.growth.ratio > 1 && !isStraight(soonest.growth.ratio),
        })
      : 'none';
    if (cameBack && !soonest) steady.reset();
    const shown = steady.update(risk === 'none' && full ? 'low' : risk, point.seconds);
    return soonest ? growing(soonest, shown, point) : level(shown, full, seen);
  }

  return {
    add(point) {
      if (Number.isNaN(firstSeconds)) firstSeconds = point.seconds;
      held.add(point.seconds, point.heldBytes, point.limitBytes);
      if (point.liveBytes !== undefined) {
        live.add(point.seconds, point.liveBytes, point.limitBytes);
      }
      latest = point;
      const wait = grows ? concludeSeconds : concludeCalmSeconds;
      const cameBack = concluded
        ? concluded.heldBytes - point.heldBytes >= cameBackShare * point.limitBytes
        : false;
      if (concluded && !cameBack && point.seconds - concluded.seconds < wait) return;
      concluded = point;
      forecast = conclude(point, cameBack);
    },
    forecast: () => forecast,
    growth: () => grows,
    recentPeaks: () => ({
      heldBytes: held.recentPeak(),
      liveBytes: latest?.liveBytes === undefined ? undefined : live.recentPeak(),
    }),
  };
}

function growing(expectation: Expectation, risk: Risk, point: MemoryPoint): Forecast {
  const { growth, time, subject } = expectation;
  const what = subject === 'live' ? 'Live memory' : 'Memory';
  const how =
    growth.shape === 'envelope' ? 'peaks higher from one cycle to the next, by' : 'grows by';
  return {
    risk,
    etaSeconds: secondsOrNever(time.seconds),
    lowSeconds: secondsOrNever(time.low),
    highSeconds: secondsOrNever(time.high),
    confidence: confidenceIn(growth, time),
    bytesPerSecond: Math.round(growth.slope),
    reason:
      `${what} ${how} ${formatBytes(Math.round(growth.slope))} a second, seen for ` +
      `${formatSeconds(spanOf(growth))}; ` +
      `${formatBytes(Math.max(0, point.limitBytes - point.heldBytes))} are left.`,
    recommendations: recommendationsFor(risk),
    provenance: 'estimated',
  };
}

function level(risk: Risk, full: boolean, seenSeconds: number): Forecast {
  return {
    risk,
    etaSeconds: 'never',
    lowSeconds: 'never',
    highSeconds: 'never',
    confidence: Math.min(0.95, seenSeconds / (seenSeconds + 10)),
    bytesPerSecond: 0,
    reason: full
      ? 'Nearly all memory is taken, but it does not grow.'
      : 'Memory does not grow steadily.',
    recommendations: recommendationsFor(risk),
    provenance: 'estimated',
  };
}

function unknownForecast(reason: string): Forecast {
  return {
    risk: 'unknown',
    etaSeconds: 'unknown',
    lowSeconds: 'unknown',
    highSeconds: 'unknown',
    confidence: 0,
    bytesPerSecond: 'unknown',
    reason,
    recommendations: [],
    provenance: 'estimated',
  };
}

function secondsOrNever(seconds: number): number | 'never' {
  return Number.isFinite(seconds) ? Math.round(seconds * 1000) / 1000 : 'never';
}

/** Narrow bounds, a long look and a short way ahead make for confidence. */
function confidenceIn(growth: TrackGrowth, time: TimeToLimit): number {
  const seen = spanOf(growth);
  const ahead = Number.isFinite(time.seconds) ? time.seconds : 10 * seen;
  const width = Number.isFinite(time.high) ? (time.high - time.low) / Math.max(ahead, 1) : 2;
  const value = (seen / (seen + ahead / 4)) * (1 / (1 + width / 2));
  return Math.round(Math.min(0.99, value) * 100) / 100;
}

function recommendationsFor(risk: Risk): string[] {
  if (risk === 'critical') {
    return [
      'Save a checkpoint now.',
      'Use a smaller batch with more gradient accumulation.',
      'Drop references to tensors kept from earlier steps, then empty the cache.',
    ];
  }
  if (risk === 'high') {
    return [
      'Prepare to release cached memory and save a checkpoint.',
      'Consider a smaller batch with more gradient accumulation.',
    ];
  }
  return isAtLeast(risk, 'low') ? ['Keep watching; look for what keeps growing.'] : [];
}
