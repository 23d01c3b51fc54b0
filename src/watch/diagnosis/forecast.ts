import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Forecast, MemoryPoint, Risk } from '../types.js';
import type { Cells } from './cells.js';
import { type Growth, isStraight } from './growth.js';
import { type ExpectedEnd, type Fill, isAtLeast, outlookOf, SteadyForecast } from './risk.js';
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
/** A smaller rise is not worth a word about its end. */
const leastRiseShare = 0.002;
/** Closer to the limit than this, even level memory is a small risk. */
const nearlyFullShare = 0.95;
/** From here on there is nothing left to ask for: full, whether or not it grows. */
const fullShare = 0.995;
/** The same for what is live where an allocator reports it: it needs some room of its own. */
const fullLiveShare = 0.99;

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
  const steady = new SteadyForecast<Forecast>();
  let latest: MemoryPoint | undefined;
  let firstSeconds = Number.NaN;
  let concluded: MemoryPoint | undefined;
  let grows: TrackGrowth | undefined;
  let forecast = unknownForecast('Nothing has been read yet.');

  /** What is held: its peaks rise only when what was cached did not serve. */
  function heldEnd(point: MemoryPoint): Expectation | undefined {
    const growth = held.growth();
    if (!growth || growth.riseBytes < leastRiseShare * point.limitBytes) return undefined;
    return { growth, time: timeToLimit(growth, point.seconds, point.limitBytes), subject: 'held' };
  }

  /** What is live: work peaks above its floor, and those peaks meet the limit first. */
  function liveEnd(point: MemoryPoint): Expectation | undefined {
    const growth = point.liveBytes === undefined ? undefined : live.growth();
    if (!growth || growth.riseBytes < leastRiseShare * point.limitBytes) return undefined;
    // What began with a climb of what is held that repeats will come down with it.
    const repeatsSince = held.repeatsSince() ?? Number.POSITIVE_INFINITY;
    if (growth.fromSeconds >= repeatsSince - 1) return undefined;
    const above = Math.max(0, live.recentPeak() - growth.endBytes);
    const time = timeToLimit(growth, point.seconds, point.limitBytes - above);
    return { growth, time, subject: 'live' };
  }

  function soonestEnd(point: MemoryPoint): Expectation | undefined {
    const ofHeld = heldEnd(point);
    const ofLive = liveEnd(point);
    if (!ofHeld || !ofLive) return ofHeld ?? ofLive;
    return ofLive.time.seconds < ofHeld.time.seconds ? ofLive : ofHeld;
  }

  function conclude(point: MemoryPoint, cameBack: boolean): Forecast {
    const seen = point.seconds - firstSeconds;
    const fill = fillOf(point);
    if (seen < leastSeconds && fill !== 'full') {
      return unknownForecast(`Only ${formatSeconds(seen)} seen; ${leastSeconds} s are needed.`);
    }
    const soonest = soonestEnd(point);
    grows = soonest?.growth;
    if (cameBack && !soonest) steady.reset();
    const next = soonest
      ? growing(soonest, endOf(soonest, firstSeconds), fill, point)
      : level(fill, seen, point);
    // That nothing is left is a fact, not an expectation: it needs no second look.
    if (fill === 'full') steady.reset();
    return steady.update(next, point.seconds);
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

function fillOf({ heldBytes, liveBytes, limitBytes }: MemoryPoint): Fill {
  const full =
    liveBytes === undefined
      ? heldBytes >= fullShare * limitBytes
      : liveBytes >= fullLiveShare * limitBytes;
  if (full) return 'full';
  return heldBytes >= nearlyFullShare * limitBytes ? 'nearly-full' : 'room';
}

function endOf({ growth, time }: Expectation, firstSeconds: number): ExpectedEnd {
  return {
    etaSeconds: time.seconds,
    lowSeconds: time.low,
    highSeconds: time.high,
    seenSeconds: spanOf(growth),
    fromStart: growth.fromSeconds - firstSeconds < startSeconds,
    bend: bendOf(growth),
  };
}

function bendOf({ ratio }: TrackGrowth): ExpectedEnd['bend'] {
  if (isStraight(ratio)) return 'straight';
  return ratio > 1 ? 'accelerates' : 'slows';
}

function growing(
  { growth, time, subject }: Expectation,
  end: ExpectedEnd,
  fill: Fill,
  point: MemoryPoint,
): Forecast {
  const { risk, etaSeconds, lowSeconds, highSeconds } = outlookOf(end, fill);
  return {
    risk,
    etaSeconds,
    lowSeconds,
    highSeconds,
    confidence: confidenceIn(growth, time),
    bytesPerSecond: Math.round(time.bytesPerSecond),
    // Most forecasts are never read out: the words are made for those that are.
    get reason() {
      const seen = `${subject === 'live' ? 'Live memory' : 'Memory'} ${growthWords({ growth, time })}`;
      if (fill === 'full') return `${seen}; ${leftWords(point)}.`;
      const early =
        etaSeconds === 'unknown'
          ? ` It would be full in ${formatSeconds(time.seconds)}: too far ahead of what was seen to rely on.`
          : '';
      return `${seen}; ${roomWords({ growth, time, subject })}.${early}`;
    },
    recommendations: recommendationsFor(risk),
    provenance: 'estimated',
  };
}

/** `grows by 42.0 MiB a second and speeds up, seen for 9 s`. */
function growthWords({ growth, time }: Pick<Expectation, 'growth' | 'time'>): string {
  const rate = formatBytes(Math.round(time.bytesPerSecond));
  const how =
    growth.shape === 'envelope' ? 'peaks higher from one cycle to the next, by' : 'grows by';
  const { curvature } = growth.curve;
  const bend = curvature === 0 ? '' : curvature > 0 ? ' and speeds up' : ' and slows down';
  return `${how} ${rate} a second${bend}, seen for ${formatSeconds(spanOf(growth))}`;
}

/** What is left, and how fast it is taken, as the time of the forecast has it. */
function roomWords({ growth, time, subject }: Expectation): string {
  const room = formatBytes(Math.round(time.roomBytes));
  const above = subject === 'live' || growth.shape === 'envelope' ? ' above its peaks' : '';
  const meanBytes = time.roomBytes / time.seconds;
  const isEven = Math.abs(meanBytes - time.bytesPerSecond) < evenShare * time.bytesPerSecond;
  if (isEven || !Number.isFinite(time.seconds) || time.seconds === 0) {
    return `${room} are left${above}`;
  }
  const mean = formatBytes(Math.round(meanBytes));
  return `at ${mean} a second on average it takes the ${room} that are left${above}`;
}

/** Two rates that differ by less are the same to a person. */
const evenShare = 0.02;

const levelReasons: Readonly<Record<Fill, (point: MemoryPoint) => string>> = {
  full: (point) => `Memory is full: ${leftWords(point)}.`,
  'nearly-full': () => 'Nearly all memory is taken, but it does not grow.',
  room: () => 'Memory does not grow steadily.',
};

function level(fill: Fill, seenSeconds: number, point: MemoryPoint): Forecast {
  const { risk, etaSeconds, lowSeconds, highSeconds } = outlookOf(undefined, fill);
  return {
    risk,
    etaSeconds,
    lowSeconds,
    highSeconds,
    confidence: fill === 'full' ? 0.99 : Math.min(0.95, seenSeconds / (seenSeconds + 10)),
    bytesPerSecond: 0,
    reason: levelReasons[fill](point),
    recommendations: recommendationsFor(risk),
    provenance: 'estimated',
  };
}

function leftWords({ limitBytes, heldBytes }: MemoryPoint): string {
  return `${formatBytes(Math.max(0, limitBytes - heldBytes))} are left`;
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

/** Seconds from now until the growth reaches the limit, with bounds; Infinity means never. */
interface TimeToLimit {
  readonly seconds: number;
  readonly low: number;
  readonly high: number;
  /** What the growth has left to take now. */
  readonly roomBytes: number;
  /** How fast it takes it now. */
  readonly bytesPerSecond: number;
}

/** Bounds allow for a bend of so many times what chance makes. */
const noiseFactor = 2;

/**
 * Extends the growth to the limit: a straight line where the window is straight; otherwise a slope
 * that keeps changing by the same factor, which covers exponential growth and growth that levels
 * off.
 */
export function timeToLimit(growth: Growth, nowSeconds: number, limitBytes: number): TimeToLimit {
  const { curve } = growth;
  const span = growth.toSeconds - growth.fromSeconds;
  const gap = limitBytes - curve.endBytes;
  const passed = nowSeconds - growth.toSeconds;
  const at = (slope: number, curvature: number, room: number): number =>
    Math.max(0, reach(slope, curvature, room) - passed);
  const seconds = at(curve.endSlope, curve.curvature, gap);
  const now = Math.exp(curve.curvature * passed) * curve.endSlope;
  const taken =
    Math.abs(curve.curvature) < leastCurvature
      ? curve.endSlope * passed
      : (now - curve.endSlope) / curve.curvature;
  // Far beyond the window the slope itself may change: widen with the distance.
  const doubt = 1.25 + 0.1 * Math.min(3, seconds / span);
  const steepest = (curve.endSlope * growth.slopeHigh * doubt) / growth.slope;
  const flattest = (curve.endSlope * growth.slopeLow) / doubt / growth.slope;
  const noise = noiseFactor * curve.curvatureNoise;
  return {
    seconds,
    low: Math.min(seconds, at(steepest, curve.curvature + noise, gap - growth.stepBytes)),
    high: Math.max(seconds, at(flattest, curve.curvature - noise, gap + growth.stepBytes)),
    roomBytes: Math.max(0, gap - taken),
    bytesPerSecond: now > 0 ? now : growth.slope,
  };
}

/** Less is a straight line. */
const leastCurvature = 1e-9;

/** When the integral of slope x e^(curvature t) reaches the gap. */
function reach(slope: number, curvature: number, gap: number): number {
  if (gap <= 0) return 0;
  if (slope <= 0) return Number.POSITIVE_INFINITY;
  if (Math.abs(curvature) < leastCurvature) return gap / slope;
  const inside = 1 + (curvature * gap) / slope;
  return inside > 0 ? Math.log(inside) / curvature : Number.POSITIVE_INFINITY;
}
