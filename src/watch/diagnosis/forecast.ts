import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import type { Forecast, MemoryPoint, Risk } from '../types.js';
import { Cells } from './cells.js';
import { type TimeToLimit, timeToLimit } from './forecast-time.js';
import { isStraight } from './growth.js';
import { type PatternEnd, Patterns } from './patterns.js';
import {
  certain,
  defaultCosts,
  type ForecastCosts,
  type Probability,
  probabilityOf,
} from './probability.js';
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
  /** What the last conclusion rests on, for those who fit the table of probabilities. */
  evidence(): { readonly seconds: number; readonly features: Float64Array };
  /** The most that was held, and live where an allocator reports it, in the last half minute. */
  recentPeaks(): { readonly heldBytes: number; readonly liveBytes: number | undefined };
}

interface Expectation {
  /** Without one, memory grows in stairs. */
  readonly growth: TrackGrowth | undefined;
  readonly time: TimeToLimit;
  readonly spanSeconds: number;
  readonly subject: 'held' | 'live' | 'stairs';
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
export function createForecaster(
  shared?: { held: Cells; live: Cells },
  costs: ForecastCosts = defaultCosts,
): Forecaster {
  const cells = shared ?? { held: new Cells(), live: new Cells() };
  const held = new Track('peaks', cells.held);
  const live = new Track('floor', cells.live);
  const patterns = new Patterns(cells.held, cells.live);
  let features: Float64Array = new Float64Array();
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
    const time = timeToLimit(growth, point.seconds, point.limitBytes);
    return { growth, time, spanSeconds: spanOf(growth), subject: 'held' };
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
    return { growth, time, spanSeconds: spanOf(growth), subject: 'live' };
  }

  /** Steady growth, the sooner end of the two; without any, stairs that were right lately. */
  function expected(point: MemoryPoint): Expectation | undefined {
    const ofHeld = heldEnd(point);
    const ofLive = liveEnd(point);
    const sooner = ofHeld && ofLive && ofLive.time.seconds < ofHeld.time.seconds ? ofLive : ofHeld;
    const growth = sooner ?? ofLive;
    if (growth) return growth;
    const { end, error } = patterns.stairsNow();
    if (error > provenError || !Number.isFinite(end.seconds)) return undefined;
    return stairsEnd(end, point);
  }

  function conclude(point: MemoryPoint, cameBack: boolean): Forecast {
    const seen = point.seconds - firstSeconds;
    const fill = fillOf(point);
    if (seen < leastSeconds && fill !== 'full') {
      return unknownForecast(`Only ${formatSeconds(seen)} seen; ${leastSeconds} s are needed.`);
    }
    features = patterns.features({
      nowSeconds: point.seconds,
      seenSeconds: seen,
      limitBytes: point.limitBytes,
      heldBytes: point.heldBytes,
      liveBytes: point.liveBytes,
      peakHeld: held.recentPeak(),
      peakLive: point.liveBytes === undefined ? undefined : live.recentPeak(),
      held: held.growth(),
      live: point.liveBytes === undefined ? undefined : live.growth(),
      isRepetition: held.repeatsSince() !== undefined,
      climbs: held.climbs,
    });
    const probability = fill === 'full' ? certain : probabilityOf(features);
    const found = expected(point);
    grows = found?.growth;
    if (cameBack && !found) steady.reset();
    const next = found
      ? growing(found, endOf(found, firstSeconds), probability, fill, point, costs)
      : level(fill, seen, point, probability, costs);
    // That nothing is left is a fact, not an expectation: it needs no second look.
    if (fill === 'full') steady.reset();
    return steady.update(next, point.seconds);
  }

  return {
    add(point) {
      if (Number.isNaN(firstSeconds)) firstSeconds = point.seconds;
      if (!shared) cells.held.add(point.seconds, point.heldBytes);
      held.add(point.seconds, point.heldBytes, point.limitBytes);
      patterns.stairs.add(point.seconds, point.heldBytes, leastRiseShare * point.limitBytes);
      if (point.liveBytes !== undefined) {
        if (!shared) cells.live.add(point.seconds, point.liveBytes);
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
    evidence: () => ({ seconds: concluded?.seconds ?? Number.NaN, features }),
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

/** Stairs count where their last predictions were off by less than this share. */
const provenError = 0.35;
/** Bounds of a pattern without a spread of its own, as shares of its time. */
const patternBounds = [0.6, 1.8] as const;

function stairsEnd(end: PatternEnd, point: MemoryPoint): Expectation {
  const [low, high] = patternBounds;
  return {
    growth: undefined,
    subject: 'stairs',
    spanSeconds: end.spanSeconds,
    time: {
      seconds: end.seconds,
      low: low * end.seconds,
      high: high * end.seconds,
      roomBytes: Math.max(0, point.limitBytes - point.heldBytes),
      bytesPerSecond: end.bytesPerSecond,
    },
  };
}

function endOf({ growth, time, spanSeconds }: Expectation, firstSeconds: number): ExpectedEnd {
  return {
    etaSeconds: time.seconds,
    lowSeconds: time.low,
    highSeconds: time.high,
    seenSeconds: spanSeconds,
    fromStart: growth !== undefined && growth.fromSeconds - firstSeconds < startSeconds,
    bend: growth ? bendOf(growth) : 'straight',
  };
}

function bendOf({ ratio }: TrackGrowth): ExpectedEnd['bend'] {
  if (isStraight(ratio)) return 'straight';
  return ratio > 1 ? 'accelerates' : 'slows';
}

function growing(
  found: Expectation,
  end: ExpectedEnd,
  probability: Probability,
  fill: Fill,
  point: MemoryPoint,
  costs: ForecastCosts,
): Forecast {
  const { time } = found;
  const { risk, etaSeconds, lowSeconds, highSeconds } = outlookOf(end, fill, probability, costs);
  return {
    risk,
    probability,
    etaSeconds,
    lowSeconds,
    highSeconds,
    confidence: confidenceIn(found.spanSeconds, time),
    bytesPerSecond: Math.round(time.bytesPerSecond),
    // Most forecasts are never read out: the words are made for those that are.
    get reason() {
      const seen = `${found.subject === 'live' ? 'Live memory' : 'Memory'} ${growthWords(found)}`;
      if (fill === 'full') return `${seen}; ${leftWords(point)}.`;
      const early =
        etaSeconds === 'unknown'
          ? ` It would be full in ${formatSeconds(time.seconds)}: too far ahead of what was seen to rely on.`
          : '';
      return `${seen}; ${roomWords(found)}.${early}`;
    },
    recommendations: recommendationsFor(risk),
    provenance: 'estimated',
  };
}

/** `grows by 42.0 MiB a second and speeds up, seen for 9 s`. */
function growthWords({ growth, time, spanSeconds, subject }: Expectation): string {
  const rate = formatBytes(Math.round(time.bytesPerSecond));
  const how =
    growth?.shape === 'envelope'
      ? 'peaks higher from one cycle to the next, by'
      : subject === 'stairs'
        ? 'grows in steps, by'
        : 'grows by';
  const curvature = growth?.curve.curvature ?? 0;
  const bend = curvature === 0 ? '' : curvature > 0 ? ' and speeds up' : ' and slows down';
  return `${how} ${rate} a second${bend}, seen for ${formatSeconds(spanSeconds)}`;
}

/** What is left, and how fast it is taken, as the time of the forecast has it. */
function roomWords({ growth, time, subject }: Expectation): string {
  const room = formatBytes(Math.round(time.roomBytes));
  const above = subject === 'live' || growth?.shape === 'envelope' ? ' above its peaks' : '';
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

function level(
  fill: Fill,
  seenSeconds: number,
  point: MemoryPoint,
  probability: Probability,
  costs: ForecastCosts,
): Forecast {
  const outlook = outlookOf(undefined, fill, probability, costs);
  const { risk, etaSeconds, lowSeconds, highSeconds } = outlook;
  return {
    risk,
    probability,
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
    probability: 'unknown',
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
function confidenceIn(seen: number, time: TimeToLimit): number {
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
