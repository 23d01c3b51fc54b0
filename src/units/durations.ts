import { Failure } from '../failure.js';
import { checkArguments, number, string } from './arguments.js';

const factors: Readonly<Record<string, number>> = {
  '': 1,
  ms: 1e-3,
  s: 1,
  m: 60,
  min: 60,
  h: 3600,
  d: 86_400,
};

/**
 * Reads a duration in seconds: `60`, `0.1`, `10ms`, `5m`, `1.5h`.
 *
 * @example
 * parseSeconds('10ms'); // 0.01
 */
export function parseSeconds(text: string): number {
  checkArguments('parseSeconds', { text }, { text: string });
  const match = /^\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*)\s*$/i.exec(text);
  const factor = factors[(match?.[2] ?? '?').toLowerCase()];
  if (!match || factor === undefined) {
    throw new Failure({
      kind: 'input',
      code: 'bad-duration',
      fact: `"${text}" is not a duration.`,
      next: 'Write seconds (60, 0.1) or a unit (10ms, 5m, 1h).',
    });
  }
  return Number(match[1]) * factor;
}

/** A duration for people: `20 ms`, `0.8 s`, `45 s`, `3 min 20 s`, `2 h 5 min`, `6 d 3 h`. */
export function formatSeconds(seconds: number): string {
  checkArguments('formatSeconds', { seconds }, { seconds: number });
  if (seconds > 0 && seconds < 0.1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return join(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86_400)
    return join(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'min');
  return join(Math.floor(whole / 86_400), 'd', Math.floor((whole % 86_400) / 3600), 'h');
}

function join(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}
