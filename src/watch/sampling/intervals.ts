import { Failure } from '../../failure.js';

/** How often things are looked at while watching. */
export interface Intervals {
  /** Between two samples of a device; 0.01 at least. */
  readonly intervalSeconds: number;
  /** Between two readings of the processes of a device, which cost more. */
  readonly processIntervalSeconds: number;
  /** Between two looks for devices that appeared or vanished. */
  readonly rescanSeconds: number;
  /** How long to watch; 0 is until stopped. */
  readonly durationSeconds: number;
}

export const defaultIntervals: Intervals = {
  intervalSeconds: 0.1,
  processIntervalSeconds: 1,
  rescanSeconds: 5,
  durationSeconds: 0,
};

/** Below it the reading itself would take a good part of the time. */
export const leastIntervalSeconds = 0.01;

/**
 * The intervals asked for, the rest as usual; a bad one is a `Failure` that names it.
 *
 * @example
 * resolveIntervals({ intervalSeconds: 0.001 }); // throws: bad-interval
 */
export function resolveIntervals(
  asked: { [Name in keyof Intervals]?: number | undefined },
): Intervals {
  const resolve = (name: keyof Intervals, least: number): number => {
    const value = asked[name] ?? defaultIntervals[name];
    if (Number.isFinite(value) && value >= least) return value;
    throw new Failure({
      kind: 'input',
      code: name === 'durationSeconds' ? 'bad-duration' : 'bad-interval',
      fact: `${name} is ${value}.`,
      next: `It must be a number of seconds, ${least} at least.`,
    });
  };
  return {
    intervalSeconds: resolve('intervalSeconds', leastIntervalSeconds),
    processIntervalSeconds: resolve('processIntervalSeconds', leastIntervalSeconds),
    rescanSeconds: resolve('rescanSeconds', leastIntervalSeconds),
    durationSeconds: resolve('durationSeconds', 0),
  };
}
