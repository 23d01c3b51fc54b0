import { isKnown, type Known } from '../../../../src/units/known.js';
import type { DeviceView, JobView, Provenance } from '../../api/types.js';

/** What a job holds of all devices together; `unknown` where it is not known. */
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

/** Where the figures of a job come from: as its device says, else as its attempts do. */
export function provenanceOfJob(
  devices: readonly DeviceView[],
  { attempts, reservation }: Pick<JobView, 'attempts' | 'reservation'>,
): Known<Provenance> {
  const place = devices.find(({ id }) => reservation?.devices.includes(id));
  return place?.provenance ?? attempts[0]?.source ?? 'unknown';
}
