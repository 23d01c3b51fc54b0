import { availableParallelism } from 'node:os';
import type { Discovery } from '../../../device/discover.js';
import { readDevice } from '../devices/read-device.js';
import type { EstimatingHost } from './estimates-at-once.js';

/** This machine, or what its cgroup leaves of it. */
export async function estimatingHost({
  devices,
}: Pick<Discovery, 'devices'>): Promise<EstimatingHost> {
  const host = devices.find(({ info }) => info.kind === 'host');
  const read = host === undefined ? undefined : await readDevice(host);
  return { cores: availableParallelism(), memoryBytes: read?.totalBytes ?? 'unknown' };
}
