import type { Attempt } from '../run/types.js';
import { deviceWords } from '../run/words.js';
import { formatBytes, GiB } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Known } from '../units/known.js';
import { chanceWords } from '../watch/chance-words.js';
import type { Cause, Forecast, Leak, Trend } from '../watch/types.js';

/** A rate for people: `12.3 MiB a second`, or by the minute or hour when it is slow. */
export function rateWords(bytesPerSecond: Known<number>): string {
  if (!isKnown(bytesPerSecond)) return 'an unknown rate';
  const rate = Math.abs(bytesPerSecond);
  if (rate >= 1024 ** 2 / 10) return `${formatBytes(Math.round(bytesPerSecond))} a second`;
  if (rate * 60 >= 1024 ** 2 / 10)
    return `${formatBytes(Math.round(bytesPerSecond * 60))} a minute`;
  return `${formatBytes(Math.round(bytesPerSecond * 3600))} an hour`;
}

/**
 * The bounds of a forecast, in one unit where they share one.
 *
 * @example
 * intervalWords(30, 70); // '30 to 70 s'
 */
export function intervalWords(low: Known<number> | 'never', high: Known<number> | 'never'): string {
  if (typeof low !== 'number')
    return typeof high === 'number' ? `within ${formatSeconds(high)}` : '';
  if (typeof high !== 'number') return `${formatSeconds(low)} or later`;
  if (high < 10) return `${low.toFixed(1)} to ${high.toFixed(1)} s`;
  if (high < 120) return `${Math.round(low)} to ${Math.round(high)} s`;
  for (const [unit, size] of [
    ['min', 60],
    ['h', 3600],
    ['d', 86_400],
  ] as const) {
    // Whole units only where they still tell the bounds apart.
    if (low >= 3 * size && high < 120 * size) {
      return `${Math.round(low / size)} to ${Math.round(high / size)} ${unit}`;
    }
  }
  return `${formatSeconds(low)} to ${formatSeconds(high)}`;
}

/**
 * The expected time and its bounds: `45 s (30 to 70 s)`, or `less than a second`; undefined when no
 * end is seen.
 */
export function etaWords(
  forecast: Pick<Forecast, 'etaSeconds' | 'lowSeconds' | 'highSeconds'>,
): string | undefined {
  if (typeof forecast.etaSeconds !== 'number') return undefined;
  if (forecast.etaSeconds < 1) return 'less than a second';
  const bounds = intervalWords(forecast.lowSeconds, forecast.highSeconds);
  const eta = formatSeconds(forecast.etaSeconds);
  return bounds === '' ? eta : `${eta} (${bounds})`;
}

/** `full in 45 s (30 to 70 s)`, or `full now`; undefined when no end is seen. */
export function fullWords(
  forecast: Pick<Forecast, 'etaSeconds' | 'lowSeconds' | 'highSeconds'>,
): string | undefined {
  if (forecast.etaSeconds === 0) return 'full now';
  const eta = etaWords(forecast);
  return eta === undefined ? undefined : `full in ${eta}`;
}

/**
 * A forecast in one sentence part.
 *
 * @example
 * forecastWords(state.forecast);
 * // 'full in 45 s (30 to 70 s), 84 % likely within a minute if nothing changes, risk high, estimated'
 */
export function forecastWords(forecast: Forecast): string {
  if (!isKnown(forecast.risk)) return `unknown: ${withoutFullStop(forecast.reason)}`;
  const full = fullWords(forecast);
  if (full === 'full now') return `${full}, risk ${forecast.risk}, estimated`;
  const chance = chanceWords(forecast);
  const sure = chance === undefined ? '' : `, ${chance}`;
  if (full !== undefined) return `${full}${sure}, risk ${forecast.risk}, estimated`;
  if (forecast.etaSeconds === 'unknown')
    return `grows, time not known yet, risk ${forecast.risk}, estimated`;
  return `no out-of-memory expected, risk ${forecast.risk}, estimated`;
}

/**
 * A leak in one sentence part.
 *
 * @example
 * leakWords(state.leak); // 'grows by 12.3 MiB a second, 1.2 GiB so far, confidence 93 %'
 */
export function leakWords(leak: Leak): string {
  if (!isKnown(leak.found)) return `unknown: ${withoutFullStop(leak.reason)}`;
  if (!leak.found) return 'none found';
  const grown = isKnown(leak.grownBytes) ? `, ${formatBytes(leak.grownBytes)} so far` : '';
  return `grows by ${rateWords(leak.bytesPerSecond)}${grown}, confidence ${percentWords(leak.confidence * 100)}`;
}

const causes: Readonly<Record<Cause, string>> = {
  leak: 'a leak: memory grows and is not freed',
  fragmentation: 'fragmentation: memory is held in pieces too small to use',
  growth: 'growth: the job needs more as it goes on',
  spike: 'a spike: a short need far above the usual one',
  neighbour: 'a neighbour: another process on the same device takes the memory',
  none: 'none',
  unknown: 'unknown',
};

/** What fills the memory, with the word explained. */
export function causeWords(cause: Cause): string {
  return causes[cause];
}

const trends: Readonly<Record<Trend, string>> = {
  increasing: 'rising',
  decreasing: 'falling',
  stable: 'steady',
  unknown: 'unknown',
};

export function trendWords(trend: Trend): string {
  return trends[trend];
}

/** `69.5 %`, without the decimal when `digits` is 0. */
export function percentWords(percent: Known<number>, digits = 0): string {
  return isKnown(percent) ? `${percent.toFixed(digits)} %` : 'unknown';
}

/** Used of total, in one unit where both are large: `85.6 of 139.8 GiB`, `640 MiB of 139.8 GiB`. */
export function usedOfTotal(used: Known<number>, total: Known<number>): string {
  if (isKnown(used) && isKnown(total) && used >= GiB && total >= GiB) {
    return `${(used / GiB).toFixed(1)} of ${formatBytes(total)}`;
  }
  return `${formatBytes(used)} of ${formatBytes(total)}`;
}

/** Share of total, 0 to 100 and above; unknown when either is, or when total is nothing. */
export function percentOf(used: Known<number>, total: Known<number>): Known<number> {
  return isKnown(used) && isKnown(total) && total > 0 ? (used / total) * 100 : 'unknown';
}

/** `1 sample`, `1,204 samples`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? one : many}`;
}

/** A date for people, in UTC so that the same data always read the same. */
export function utcWords(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function withoutFullStop(sentence: string): string {
  return sentence.replace(/\.\s*$/, '');
}

/** What held the memory of an attempt, for the terminal and for its page. */
interface HolderWords {
  readonly title: string;
  readonly processes: readonly { readonly bytes: string; readonly command: string }[];
  /** What a reader should know of these figures. */
  readonly note: string;
}

/** Below this share of the limit the named processes do not explain that it was reached. */
const explainsShare = 0.7;

/** By the processes, as they were last read; undefined where none was. */
export function holderWords(attempt: Attempt): HolderWords | undefined {
  const { holders, settings, startedAt, endedAt } = attempt;
  if (holders === undefined) return undefined;
  const seconds = (Date.parse(endedAt) - Date.parse(startedAt)) / 1000;
  const before = formatSeconds(Math.max(0, seconds - holders.atSeconds));
  const of = settings.device === 'host' ? '' : ` of ${deviceWords(settings)}`;
  return {
    title: `What held the memory${of}, read ${before} before the end:`,
    processes: holders.processes.map(({ pid, command, bytes }) => ({
      bytes: formatBytes(bytes),
      command: `${isKnown(command) ? command : 'unknown program'} (pid ${pid})`,
    })),
    note: noteOf(attempt, holders),
  };
}

function noteOf({ limit, settings }: Attempt, holders: NonNullable<Attempt['holders']>): string {
  const { totalBytes, othersBytes } = holders;
  const parts = [`All processes of the run together: ${formatBytes(totalBytes)}.`];
  if (isKnown(othersBytes)) {
    parts.push(`Other programs on ${deviceWords(settings)}: ${formatBytes(othersBytes)}.`);
  }
  if (typeof limit.bytes === 'number' && totalBytes < explainsShare * limit.bytes) {
    parts.push(`The rest, up to ${formatBytes(limit.bytes)}, came after this reading.`);
  }
  return parts.join(' ');
}
