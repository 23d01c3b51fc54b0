import type { EnvelopePoint } from './growth.js';

/** Points that each of the two lines has at least. */
const fewestInLine = 8;
/** Two lines explain the points where they leave less than this share of what a curve leaves. */
const clearlyBetter = 0.5;
/** The later line must rise at this share of the earlier one, or it has nearly levelled off. */
const leastLaterShare = 0.25;
/** Approaches to a plateau that are tried: their time constants, in shares of the window. */
const approaches = [0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5] as const;
/** Growth that becomes slower without a plateau: powers of the time. */
const powers = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] as const;

/** Least squares with any number of columns up to three; answers the coefficients and the rest. */
function leastSquares(
  columns: readonly (readonly number[])[],
  values: readonly number[],
): { coefficients: number[]; rest: number } {
  const k = columns.length;
  const rows = columns.map((a) => [...columns.map((b) => dot(a, b)), dot(a, values)]);
  for (let i = 0; i < k; i++) {
    const pivot = rows[i]?.[i] ?? 0;
    for (let j = 0; j < k; j++) {
      if (j === i || pivot === 0) continue;
      const factor = (rows[j]?.[i] ?? 0) / pivot;
      rows[j] = (rows[j] ?? []).map((value, c) => value - factor * (rows[i]?.[c] ?? 0));
    }
  }
  const coefficients = rows.map((row, i) => (row[k] ?? 0) / (row[i] || Number.NaN));
  const rest = values.reduce((sum, value, r) => {
    const fitted = coefficients.reduce((all, one, c) => all + one * (columns[c]?.[r] ?? 0), 0);
    return sum + (value - fitted) ** 2;
  }, 0);
  return { coefficients, rest };
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
}

/**
 * Whether growth that became slower did so once, from one straight rate to another: then it goes
 * on. What approaches a plateau becomes slower all the time. Both are fitted to the points; the two
 * lines must leave clearly less unexplained than the best curve.
 */
export function slowedOnce(points: readonly EnvelopePoint[]): boolean {
  const n = points.length;
  if (n < 2 * fewestInLine) return false;
  const first = points[0] ?? { seconds: 0, bytes: 0 };
  const span = (points.at(-1)?.seconds ?? 0) - first.seconds;
  const times = points.map((point) => (point.seconds - first.seconds) / span);
  const values = points.map((point) => point.bytes - first.bytes);
  const ones = times.map(() => 1);

  let lines = { coefficients: [0, 0, 0], rest: Number.POSITIVE_INFINITY };
  for (let knee = fewestInLine; knee <= n - fewestInLine; knee++) {
    const at = times[knee] ?? 0;
    const fit = leastSquares([ones, times, times.map((t) => Math.max(0, t - at))], values);
    if (fit.rest < lines.rest) lines = fit;
  }
  const [, early = 0, change = 0] = lines.coefficients;
  if (!(early > 0 && change < 0 && early + change >= leastLaterShare * early)) return false;
  const shapes = [
    ...approaches.map((tau) => times.map((t) => 1 - Math.exp(-t / tau))),
    ...powers.map((power) => times.map((t) => t ** power)),
  ];
  const curve = Math.min(...shapes.map((shape) => leastSquares([ones, shape], values).rest));
  return lines.rest < clearlyBetter * curve;
}
