import { type DeviceBook, type FleetAnswers, keyOf } from './fleet-devices.js';
import type { FleetLeak } from './types.js';

/** Leaks of processes, and of devices where no process could be named; the fastest first. */
export function fleetLeaks(
  { processLeaks, leak }: FleetAnswers,
  book: DeviceBook,
): readonly FleetLeak[] {
  const ofProcesses = processLeaks.map((point): FleetLeak => {
    const { device = '', pid = '', process = '', user = '' } = point.labels;
    return {
      node: book.nodeOf(point),
      device,
      bytesPerSecond: point.value,
      etaSeconds: book.find(point)?.etaSeconds ?? null,
      process: { pid, name: process, user },
    };
  });
  const named = new Set(processLeaks.map(keyOf));
  const ofDevices = leak
    .filter((point) => point.value > 0 && !named.has(keyOf(point)))
    .map(
      (point): FleetLeak => ({
        node: book.nodeOf(point),
        device: point.labels['device'] ?? '',
        bytesPerSecond: point.value,
        etaSeconds: book.find(point)?.etaSeconds ?? null,
        process: null,
      }),
    );
  return [...ofProcesses, ...ofDevices].toSorted(
    (one, other) => other.bytesPerSecond - one.bytesPerSecond,
  );
}
