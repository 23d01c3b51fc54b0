import type { Growth } from './growth.js';

/** Seconds from now until the growth reaches the limit, with bounds; Infinity means never. */
export interface TimeToLimit {
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
