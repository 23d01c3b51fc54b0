import type { ProcessReading } from '../device/contract.js';
import type { Cause, Forecast, Leak, MemoryPoint } from './types.js';

/** Everything that is concluded about one device, fed one point at a time; it never looks ahead. */
export interface Diagnosis {
  add(point: MemoryPoint): void;
  addProcesses(seconds: number, processes: readonly ProcessReading[]): void;
  forecast(): Forecast;
  leak(): Leak;
  processLeaks(): ReadonlyMap<number, Leak>;
  cause(): Cause;
}
