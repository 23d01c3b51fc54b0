import type { DeviceUse } from '../../../device/use-file.js';
import type { RunUse } from '../../../engine/types.js';
import { GiB } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';

/**
 * What a driver keeps for itself is less than this. Where more is used and no listed process has it,
 * the list is not the whole one: in a container a driver may show none.
 */
const hiddenBytes = GiB;

/** What each job holds of a GPU; `unknown` where its processes cannot be told apart. */
export function jobsOnGpu(options: {
  readonly usedBytes: Known<number>;
  readonly processes: DeviceUse;
  readonly use: RunUse;
  /** Its own processes exist nowhere, and no job can hold any of it. */
  readonly isSimulated: boolean;
  /** The job of a run; undefined where it is none of ours. */
  readonly jobOf: (runId: string) => string | undefined;
}): Known<ReadonlyMap<string, number>> {
  const { usedBytes, processes, use, isSimulated, jobOf } = options;
  if (!isKnown(processes)) return 'unknown';
  const held = new Map<string, number>();
  let listed = 0;
  for (const { pid, usedBytes: bytes } of processes) {
    if (!isSimulated && !use.knows(pid)) return 'unknown';
    const runId = use.runOf(pid);
    const job = runId === undefined ? undefined : jobOf(runId);
    if (isKnown(bytes)) listed += bytes;
    if (job === undefined) continue;
    if (!isKnown(bytes)) return 'unknown';
    held.set(job, (held.get(job) ?? 0) + bytes);
  }
  const isHidden = isKnown(usedBytes) && usedBytes - listed > hiddenBytes;
  return isHidden && !isSimulated ? 'unknown' : held;
}
