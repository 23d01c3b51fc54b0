import { type Growth, isStraight } from './growth.js';

/** Seconds from now until the growth reaches the limit, with bounds; Infinity means never. */
export interface TimeToLimit {
  readonly seconds: number;
  readonly low: number;
  readonly high: number;
}

/** A few steps more or less in one half are noise, not curvature. */
const noiseSteps = 4;
/** ... and so is what the scatter around the line can make. */
const noiseOffsets = 3;

/**
 * Extends the growth to the limit. A straight line where the two halves of the window rose alike;
 * otherwise slopes that keep changing by the same factor, which covers exponential growth and
 * growth that levels off.
 */
export function timeToLimit(growth: Growth, nowSeconds: number, limitBytes: number): TimeToLimit {
  const span = growth.toSeconds - growth.fromSeconds;
  const bend = Math.log(growth.ratio);
  const noise = noiseSteps / growth.rises + (noiseOffsets * growth.offsetBytes) / growth.riseBytes;
  const curvature = isStraight(growth.ratio)
    ? 0
    : (bend * Math.max(0, 1 - (noise / bend) ** 2)) / (span / 2);
  const gap = limitBytes - growth.endBytes;
  const passed = nowSeconds - growth.toSeconds;
  const at = (slope: number, curve: number, room: number): number =>
    Math.max(0, reach(slope * Math.exp((curve * span) / 2), curve, room) - passed);
  const seconds = at(growth.slope, curvature, gap);
  // Far beyond the window the slope itself may change: widen with the distance.
  const doubt = 1.25 + 0.1 * Math.min(3, seconds / span);
  const accelerates = Math.max(curvature, bend / (span / 2));
  const levels = Math.min(curvature, bend / (span / 2));
  return {
    seconds,
    low: Math.min(seconds, at(growth.slopeHigh * doubt, accelerates, gap - growth.stepBytes)),
    high: Math.max(seconds, at(growth.slopeLow / doubt, levels, gap + growth.stepBytes)),
  };
}

/** When the integral of slope x e^(curve t) reaches the gap. */
function reach(slope: number, curve: number, gap: number): number {
  if (gap <= 0) return 0;
  if (slope <= 0) return Number.POSITIVE_INFINITY;
  if (Math.abs(curve) < 1e-9) return gap / slope;
  const inside = 1 + (curve * gap) / slope;
  return inside > 0 ? Math.log(inside) / curve : Number.POSITIVE_INFINITY;
}
