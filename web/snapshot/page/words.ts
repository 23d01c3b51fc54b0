import { formatBytes, GiB, MiB } from '../../../src/units/bytes.js';
import type { LifeFacts } from '../answer/describe.js';

/** Bytes with enough digits to tell two of them apart. */
export function bytesText(bytes: number): string {
  return Math.abs(bytes) >= GiB ? `${(bytes / GiB).toFixed(2)} GiB` : formatBytes(bytes);
}

export function countText(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** Seconds with as many digits as tell the ends of a stretch of this length apart. */
export function secondsText(seconds: number, stretch: number): string {
  const digits = Math.min(6, Math.max(0, Math.ceil(1 - Math.log10(Math.max(stretch, 1e-6)))));
  if (stretch < 0.01) return `${(seconds * 1000).toFixed(Math.max(0, digits - 3))} ms`;
  if (seconds < 120) return `${seconds.toFixed(digits)} s`;
  return `${Math.floor(seconds / 60)} min ${(seconds % 60).toFixed(digits)} s`;
}

/** Even steps of 1, 2 or 5 that make about so many of a range. */
export function evenSteps(from: number, to: number, about: number): number[] {
  const raw = (to - from) / about;
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1e-12)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw) ?? raw;
  const values: number[] = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) values.push(value);
  return values;
}

/** Even steps of memory, in the unit that suits the highest. */
export function byteSteps(from: number, to: number, about: number): { at: number; text: string }[] {
  const [unit, name] = to >= GiB ? [GiB, 'GiB'] : to >= MiB ? [MiB, 'MiB'] : [1024, 'KiB'];
  const values = evenSteps(from / unit, to / unit, about);
  const step = (values[1] ?? 1) - (values[0] ?? 0);
  const digits = Math.min(4, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1e-9)))));
  return values.map((value) => ({
    at: value * unit,
    text: value === 0 ? '0' : `${value.toFixed(digits)} ${name}`,
  }));
}

/** When an allocation was made and freed. */
export function lifeText(life: LifeFacts): string {
  const made = whenText(life.born, life.bornSeconds) ?? 'before the recording began';
  const freed = whenText(life.freed, life.freedSeconds) ?? 'not freed';
  return `made: ${made}; freed: ${freed}; address ${life.address}`;
}

function whenText(tick: number | undefined, seconds: number | undefined): string | undefined {
  if (tick === undefined) return undefined;
  const when = seconds === undefined ? '' : `${secondsText(seconds, 0.02)}, `;
  return `${when}event ${countText(tick)}`;
}
