import { GiB, KiB, MiB } from '../units/bytes.js';

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** Round steps up to `top`: whole, half or quarter GiB, or MiB below one GiB. */
export function byteTicks(top: number, wanted: number): Tick[] {
  const [unit, name] = top >= GiB ? [GiB, 'GiB'] : top >= MiB ? [MiB, 'MiB'] : [KiB, 'KiB'];
  const step = roundStep(top / unit / Math.max(1, wanted));
  const digits = step >= 1 ? 0 : Number.isInteger(step * 10) ? 1 : 2;
  const ticks: Tick[] = [];
  for (let index = 0; index * step * unit <= top; index++) {
    const label = index === 0 ? '0' : `${(index * step).toFixed(digits)} ${name}`;
    ticks.push({ at: index * step * unit, label });
  }
  return ticks;
}

/** The smallest of 1, 2, 5 times a power of ten (or 0.25) that is not below `least`. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-2)));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

const timeSteps = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600,
  43_200, 86_400, 172_800, 604_800,
] as const;

/** Steps that people count time in: seconds, minutes, hours, days. */
export function timeTicks(from: number, to: number, wanted: number): Tick[] {
  const least = (to - from) / Math.max(1, wanted);
  const step =
    timeSteps.find((candidate) => candidate >= least) ?? Math.ceil(least / 604_800) * 604_800;
  const ticks: Tick[] = [];
  for (let index = Math.ceil(from / step - 1e-9); index * step <= to + 1e-9; index++) {
    ticks.push({ at: index * step, label: timeLabel(index * step, step) });
  }
  return ticks;
}

function timeLabel(seconds: number, step: number): string {
  if (seconds === 0) return '0';
  if (step >= 86_400) return `${Math.round(seconds / 86_400)} d`;
  if (step >= 3600) return `${Math.round(seconds / 3600)} h`;
  if (step >= 60) return minuteLabel(seconds);
  if (seconds < 120) return `${step < 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const rest =
    step < 1 ? (seconds % 60).toFixed(1).padStart(4, '0') : pad(Math.round(seconds % 60));
  return `${Math.floor(seconds / 60)}:${rest}`;
}

function minuteLabel(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return minutes % 60 === 0
    ? `${minutes / 60} h`
    : `${Math.floor(minutes / 60)}:${pad(minutes % 60)} h`;
}

function pad(value: number): string {
  return String(value).padStart(2, '0');
}
