import { isKnown } from '../../../units/known.js';
import { largestOffer } from '../../fit-verdict.js';
import type { DeviceRoom } from '../../ledger.js';
import type { WaitingJob } from '../../types.js';

/** A job with a whole device for its first run waits until at least this share of a device is not used by others. */
const leastShare = 0.5;

/**
 * A waiting job with the bytes that it asks for now. One whose need is unknown asks for all that a
 * device could give if none of our jobs ran there, so it starts when none does, and gets all of it.
 */
export function askingNow(job: WaitingJob, rooms: readonly DeviceRoom[]): WaitingJob {
  if (job.alone !== true) return job;
  const offer = (share: number) =>
    largestOffer(
      rooms.map(({ id, loadLineBytes, otherProcessesBytes }) => {
        const reachable = loadLineBytes - (isKnown(otherProcessesBytes) ? otherProcessesBytes : 0);
        return { id, loadLineBytes: Math.max(reachable, loadLineBytes * share) };
      }),
      job,
    );
  const bytes = offer(leastShare);
  return bytes === undefined ? job : { ...job, bytes: Math.max(1, Math.floor(bytes)) };
}
