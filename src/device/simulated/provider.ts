import { type Clock, systemClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import type { RecordedTrace } from '../recorded-trace.js';
import type { AllocatorReading, Device, DeviceProvider, MemoryReading } from '../types.js';
import { type ScenarioName, simulateInstant } from './scenarios.js';
import { allocatorOf, rowAt, traceTotalBytes, usedOf } from './trace-instant.js';

export interface SimulatedOptions {
  /** A scenario by name, or a recorded trace played back from its first second. */
  readonly play: ScenarioName | RecordedTrace;
  readonly gpus?: number;
  /** Capacity of each GPU of a scenario, 24 GiB unless told; a trace brings its own. */
  readonly totalBytes?: number;
  /** GPU n of a scenario runs with `seed + n`. */
  readonly seed?: number;
  readonly clock?: Clock;
}

/** Above any id that Linux gives out, so that it is never taken for a real process. */
const firstPid = 4_194_305;

/**
 * GPUs that are not there, for trying things out and for tests. Time starts with the provider.
 *
 * @example
 * const { devices } = await simulatedProvider({ play: 'leak', gpus: 2 }).list();
 */
export function simulatedProvider(options: SimulatedOptions): DeviceProvider {
  const { play, gpus = 1, totalBytes = 24 * GiB, seed = 1, clock = systemClock } = options;
  const start = clock.seconds();
  const label = typeof play === 'string' ? `scenario ${play}` : 'recorded trace';
  const devices = Array.from({ length: gpus }, (_, index): Device => {
    const readAt =
      typeof play === 'string'
        ? (seconds: number) => readScenario(play, { seconds, totalBytes, seed: seed + index })
        : traceReader(play);
    const read = (): MemoryReading => readAt(Math.max(0, clock.seconds() - start));
    return {
      info: {
        id: `gpu:${index}`,
        kind: 'gpu',
        name: `simulated GPU (${label})`,
        source: 'simulated',
        provenance: 'simulated',
        uuid: `SIMULATED-${index}`,
        driver: 'unknown',
      },
      read,
      processes: () => {
        const { allocator, usedBytes } = read();
        const held = allocator?.reservedBytes ?? usedBytes;
        return Promise.resolve([{ pid: firstPid + index, name: 'simulated', usedBytes: held }]);
      },
    };
  });
  return {
    source: 'simulated',
    list: () => Promise.resolve({ devices, notes: [] }),
    fingerprint: () => Promise.resolve(`${label} ${gpus}`),
    close() {},
  };
}

function readScenario(
  scenario: ScenarioName,
  at: { seconds: number; totalBytes: number; seed: number },
): MemoryReading {
  const { allocatedBytes, reservedBytes, limitBytes, usedBytes, utilizationPercent } =
    simulateInstant(scenario, at);
  const allocator: AllocatorReading = { allocatedBytes, reservedBytes, limitBytes };
  const freeBytes = at.totalBytes - usedBytes;
  return { totalBytes: at.totalBytes, usedBytes, freeBytes, utilizationPercent, allocator };
}

function traceReader(trace: RecordedTrace): (seconds: number) => MemoryReading {
  const totalBytes = traceTotalBytes(trace);
  return (seconds) => {
    const row = rowAt(trace.rows, seconds);
    if (row === undefined) {
      return {
        totalBytes,
        usedBytes: 'unknown',
        freeBytes: 'unknown',
        utilizationPercent: 'unknown',
      };
    }
    const usedBytes = usedOf(row);
    const allocator = allocatorOf(trace, row);
    return {
      totalBytes,
      usedBytes,
      freeBytes: totalBytes - usedBytes,
      utilizationPercent: 'unknown',
      ...(allocator === undefined ? {} : { allocator }),
    };
  };
}
