/** Points between which time goes on evenly over ticks. */
export interface TimePoints {
  readonly ticks: Uint32Array;
  readonly seconds: Float64Array;
}

/** A twenty-thousandth of the recording: less than a pixel of any screen. */
const tolerance = 1 / 20_000;
/** More points would make the page larger, and show nothing more. */
const maxPoints = 100_000;

/**
 * As few points as tell the time of every tick to within the tolerance; none where the recording
 * has no times.
 */
export function timePoints(ticks: number, secondsAt: (tick: number) => number): TimePoints {
  const last = Math.max(0, ticks - 1);
  const whole = secondsAt(last);
  if (!(whole > 0)) return { ticks: new Uint32Array(0), seconds: new Float64Array(0) };
  const error = whole * tolerance;
  const points: [number, number][] = [[0, secondsAt(0)]];
  let [tick, seconds] = points[0] ?? [0, 0];
  let steepest = Infinity;
  let flattest = 0;
  let previous = seconds;
  for (let at = 1; at <= last && points.length < maxPoints; at += 1) {
    // Threads write their events at once: a time may step back a little.
    const now = Math.max(previous, secondsAt(at));
    const slope = (now - seconds) / (at - tick);
    if (slope > steepest || slope < flattest) {
      [tick, seconds] = [at - 1, previous];
      points.push([tick, seconds]);
      steepest = Infinity;
      flattest = 0;
    }
    steepest = Math.min(steepest, (now + error - seconds) / (at - tick));
    flattest = Math.max(flattest, (now - error - seconds) / (at - tick));
    previous = now;
  }
  points.push([last, Math.max(previous, whole)]);
  return {
    ticks: Uint32Array.from(points, ([at]) => at),
    seconds: Float64Array.from(points, ([, at]) => at),
  };
}
