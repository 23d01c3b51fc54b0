import { join } from 'node:path';
import { checkGpusThere } from '../job-variables.js';
import { Ledger } from '../ledger.js';
import { openJobStore } from '../store/job-store.js';
import { readDevice } from './devices/read-device.js';
import { JobDaemon } from './job-daemon.js';
import type { DaemonOptions } from './options.js';
import type { Daemon } from './types.js';

/**
 * Opens the store, takes up the jobs that run, and lets those that wait start as there is room. One
 * process can have a store; another one's is a `Failure`. Jobs go on when the daemon ends, however it
 * ends, and the next one takes them up.
 *
 * @example
 * const engine = localEngine({ home, command: [process.execPath, bin], environment, folder });
 * const daemon = await openDaemon({ home, discovery, engine, environment, folder });
 * const { id } = await daemon.submit({ command: ['python', 'train.py'], memoryBytes: 6 * 2 ** 30 });
 * console.log(daemon.job(id).state);
 * await daemon.close();
 */
export async function openDaemon(options: DaemonOptions): Promise<Daemon> {
  const { useGpus = true, devices: named, marginBytes } = options.variables ?? {};
  const infos = options.discovery.devices.map(({ info }) => info);
  checkGpusThere(
    options.variables ?? {},
    infos.flatMap(({ id, kind }) => (kind === 'host' ? [] : [id])),
  );
  const takes = (id: string) =>
    id === 'host' || (useGpus && (named === undefined || named.includes(id)));
  const ledger = new Ledger([], { share: options.loadLine, marginBytes });
  for (const device of options.discovery.devices) {
    if (!takes(device.info.id)) continue;
    const capacityBytes = (await readDevice(device))?.totalBytes ?? 'unknown';
    // One that cannot be read yet comes in with its first sample.
    if (capacityBytes !== 'unknown') ledger.add({ id: device.info.id, capacityBytes });
  }
  const store = await openJobStore(join(options.home, 'jobs.db'));
  try {
    return new JobDaemon({ ...options, store, ledger, takes });
  } catch (error) {
    store.close();
    throw error;
  }
}
