import { setMaxListeners } from 'node:events';
import { join } from 'node:path';
import { type SharedDiscovery, shareReadings } from '../../device/shared-discovery.js';
import { loadLibc } from '../../run/launch/libc.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { checkGpusThere } from '../job-variables.js';
import { Ledger } from '../ledger.js';
import { type JobStore, openJobStore } from '../store/job-store.js';
import { contextBytesOn } from './devices/context-bytes.js';
import { DeviceReadings } from './devices/device-readings.js';
import { readDevice } from './devices/read-device.js';
import { JobDaemon } from './job-daemon.js';
import type { DaemonOptions } from './options.js';
import { JobFiles, makeJobFolders } from './running/job-files.js';
import { Scheduler } from './scheduler.js';
import type { Daemon } from './types.js';

/** The processes of a host cost most of what watching costs; jobs are looked at more often. */
const defaultWatch = { intervalSeconds: 0.5, processIntervalSeconds: 5 };

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
  const { clock = systemClock, home, variables = {} } = options;
  const { useGpus = true, devices: named, marginBytes } = variables;
  const discovery = shareReadings(options.discovery, clock);
  const infos = discovery.devices.map(({ info }) => info);
  checkGpusThere(
    variables,
    infos.flatMap(({ id, kind }) => (kind === 'host' ? [] : [id])),
  );
  const takes = (id: string) =>
    id === 'host' || (useGpus && (named === undefined || named.includes(id)));
  const ledger = new Ledger([], { share: options.loadLine, marginBytes }, clock);
  for (const device of discovery.devices) {
    if (!takes(device.info.id)) continue;
    const capacityBytes = (await readDevice(device))?.totalBytes ?? 'unknown';
    // One that cannot be read yet comes in with its first sample.
    if (capacityBytes !== 'unknown') ledger.add({ id: device.info.id, capacityBytes });
  }
  const store = await openJobStore(join(home, 'jobs.db'));
  try {
    store.endDamaged(clock.epochMs());
    makeJobFolders(home);
    const libc = await loadLibc();
    const files = new JobFiles(home, 'why' in libc ? undefined : libc.pipes);
    const said = catchUp(store, files, clock.epochMs());
    if (said !== undefined) options.log?.(said);
    return buildDaemon({ ...options, clock, discovery, store, ledger, takes, files });
  } catch (error) {
    store.close();
    throw error;
  }
}

/**
 * Compares the store with the files beside it. A backup that was put back, or a lost write-ahead log,
 * makes a store that has forgotten jobs: those that started are taken back from their records, and no
 * id is given a second time. Answers the words for the person who runs the server; undefined where
 * nothing was forgotten.
 */
function catchUp(store: JobStore, files: JobFiles, nowMs: number): string | undefined {
  const before = store.lastId();
  const highest = Math.max(before, files.highestId());
  const waiting = new Set(store.waiting().map(({ id }) => id));
  const records = files
    .ids()
    .filter((id) => Number(id) > before || waiting.has(id))
    .flatMap((id) => {
      const row = files.readRecord(id);
      return row !== undefined && String(row['sequence']) === id ? [row] : [];
    });
  if (highest === before && records.length === 0) return undefined;
  const taken = store.catchUp(records, highest, nowMs);
  const forgotten = highest - before;
  const lost = forgotten - taken.filter((id) => Number(id) > before).length;
  if (forgotten === 0 && taken.length === 0) return undefined;
  return [
    `The store of jobs is older than the files beside it: it ends at job ${before}, and ${highest} was given out.`,
    taken.length === 0 ? '' : `Taken back: ${counted(taken.length)} that had started.`,
    lost === 0 ? '' : `Lost: ${counted(lost)}; submit again what had not run.`,
    `The next job is ${highest + 1}: no id is given twice.`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

function counted(jobs: number): string {
  return jobs === 1 ? '1 job' : `${jobs} jobs`;
}

/** Each part is built from those before it; what happens later in one reaches others by signals. */
function buildDaemon(
  options: DaemonOptions & {
    readonly clock: Clock;
    readonly discovery: SharedDiscovery;
    readonly store: JobStore;
    readonly ledger: Ledger;
    readonly takes: (deviceId: string) => boolean;
    readonly files: JobFiles;
  },
): Daemon {
  const { clock, store, ledger, files, discovery } = options;
  const closing = new AbortController();
  const { signal } = closing;
  // Every submit that is being estimated listens to it.
  setMaxListeners(0, signal);
  const contextBytes = contextBytesOn(discovery, options.gpus);
  const isSimulated = (deviceId: string) =>
    discovery.devices.find(({ info }) => info.id === deviceId)?.info.provenance === 'simulated';
  const scheduler = new Scheduler({ ...options, signal, files, contextBytes, isSimulated });
  const { running } = scheduler.runner;
  const watch = { ...defaultWatch, ...options.watch };
  const readings = new DeviceReadings({ ...options, watch, running });
  scheduler.startedOrEnded.listen(() => readings.lookNow());
  readings.usageRead.listen((use) => scheduler.runner.sawUse(use));
  readings.ledgerUpdated.listen(() => scheduler.admitSoon());
  scheduler.takeUp();
  if (scheduler.queue.runningCount > 0) readings.lookNow();
  return new JobDaemon({ options, clock, store, ledger, files, scheduler, readings, closing });
}
