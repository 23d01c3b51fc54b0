import { isKnown, type Known } from '../../../src/units/known.js';
import type { DeviceView } from '../api/types.js';

/** What a job holds of all devices together; `unknown` where nobody can tell. */
export function usedByJob(devices: readonly DeviceView[], jobId: string): Known<number> {
  let sum: number | undefined;
  for (const { reservations } of devices) {
    for (const reservation of reservations) {
      if (reservation.jobId === jobId && isKnown(reservation.usedBytes)) {
        sum = (sum ?? 0) + reservation.usedBytes;
      }
    }
  }
  return sum ?? 'unknown';
}
