import type { Basis } from '../../../src/jobs/reasons/types.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { formatSeconds } from '../../../src/units/durations.js';
import { isKnown, type Known } from '../../../src/units/known.js';

/** How long ago, or until when, in one unit: `3 min ago`, `in 2 h`, `now`. */
export function agoWords(atMs: number, nowMs: number): string {
  const seconds = (nowMs - atMs) / 1000;
  if (Math.abs(seconds) < 5) return 'now';
  const span = coarse(Math.abs(seconds));
  return seconds > 0 ? `${span} ago` : `in ${span}`;
}

/** A duration in its largest unit. */
export function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** A time in the reader's own zone. */
export function clockWords(at: string | null): string {
  if (at === null) return '';
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '';
  const day = date.toLocaleDateString('en-CA');
  return `${day} ${date.toLocaleTimeString('en-GB')}`;
}

export function spanWords(from: string | null, toMs: number): string {
  if (from === null) return '';
  return formatSeconds(Math.max(0, (toMs - Date.parse(from)) / 1000));
}

/** Used of reserved in one unit: `4.1 of 6.0 GiB`. */
export function usedOfReserved(used: Known<number>, reserved: number): string {
  const whole = formatBytes(reserved);
  if (!isKnown(used)) return whole;
  const part = formatBytes(used);
  const unit = whole.slice(whole.lastIndexOf(' '));
  return part.endsWith(unit) ? `${part.slice(0, -unit.length)} of ${whole}` : `${part} of ${whole}`;
}

/** Names the basis of a figure; for an unknown job it is the capacity of a device. */
export function basisWords(basis: Basis): string {
  return basis === 'unknown' ? 'no estimate yet' : basis;
}
