import { availableParallelism } from 'node:os';
import type { Discovery } from '../../../device/discover.js';
import { GiB } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import { readDevice } from '../devices/device-readings.js';

/** The machine that estimates are made on. */
interface EstimatingHost {
  readonly cores: number;
  readonly memoryBytes: Known<number>;
}

/** The daemon itself, and whatever the jobs do on the host. */
const coresLeft = 1;
/** Building a model and replaying its trace overlap a little. */
const coresEach = 1.25;
/** PyTorch with transformers, and a model on the meta device: 1 to 1.5 GB. */
const bytesEach = 1.5 * GiB;
/** The memory of the host is there for the jobs first. */
const shareOfMemory = 0.25;
const least = 2;
/** Beyond that they wait for the same disk. */
const most = 8;

/**
 * How many traces may run at the same time: each is a Python of its own.
 *
 * @example
 * estimatesAtOnce({ cores: 16, memoryBytes: 128 * 2 ** 30 }); // 8
 */
export function estimatesAtOnce({ cores, memoryBytes }: EstimatingHost): number {
  if (!isKnown(memoryBytes)) return least;
  const byCores = Math.floor((cores - coresLeft) / coresEach);
  const byMemory = Math.floor((memoryBytes * shareOfMemory) / bytesEach);
  return Math.min(most, Math.max(least, Math.min(byCores, byMemory)));
}

/** This machine, or what its cgroup leaves of it. */
export async function estimatingHost({
  devices,
}: Pick<Discovery, 'devices'>): Promise<EstimatingHost> {
  const host = devices.find(({ info }) => info.kind === 'host');
  const read = host === undefined ? undefined : await readDevice(host);
  return { cores: availableParallelism(), memoryBytes: read?.totalBytes ?? 'unknown' };
}
