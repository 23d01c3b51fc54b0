import type { Device, MemoryReading } from '../../device/device.js';
import type { Discovery } from '../../device/discover.js';
import { visibleGpus } from '../../device/select-devices.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { objectsIn } from '../job-folder.js';
import { numberIn, type SlurmCommand, slurmDocument } from './commands.js';

/** The allocation that Slurm gave to the current job. */
export interface Allocation {
  readonly jobId: string;
  /** CUDA_VISIBLE_DEVICES as Slurm sets it; undefined where the job has no GPUs of its own. */
  readonly visible: string | undefined;
  /** Of the host; `none` where Slurm set no limit. */
  readonly memoryBytes: number | 'none';
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The job of Slurm that this environment belongs to; undefined outside of Slurm. */
export function readAllocation(environment: Environment): Allocation | undefined {
  const jobId = environment['SLURM_JOB_ID'];
  if (jobId === undefined || !/^\d+$/.test(jobId)) return undefined;
  const perNode = count(environment['SLURM_MEM_PER_NODE']);
  const perCpu = count(environment['SLURM_MEM_PER_CPU']);
  const cpus = count(environment['SLURM_CPUS_ON_NODE']);
  const mebibytes =
    perNode ?? (perCpu !== undefined && cpus !== undefined ? perCpu * cpus : undefined);
  const hasGpus =
    environment['SLURM_JOB_GPUS'] !== undefined || environment['SLURM_GPUS_ON_NODE'] !== undefined;
  const visible = environment['CUDA_VISIBLE_DEVICES'];
  return {
    jobId,
    // Without GPUs in the request the GPUs of the node are others'.
    visible: visible ?? (hasGpus ? undefined : ''),
    // 0 is all of the node's memory.
    memoryBytes: mebibytes === undefined || mebibytes === 0 ? 'none' : mebibytes * MiB,
  };
}

function count(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,12}$/.test(text) ? Number(text) : undefined;
}

/** The devices that an allocation has: its GPUs, and the host with its share of the memory. */
export function withinAllocation(
  discovery: Discovery,
  allocation: Allocation | undefined,
): Discovery {
  if (allocation === undefined) return discovery;
  const limited = new Map<Device, Device>();
  const within = (devices: readonly Device[]): readonly Device[] => {
    const gpus = new Set(visibleGpus(devices, allocation.visible));
    return devices
      .filter((device) => device.info.kind === 'host' || gpus.has(device))
      .map((device) => {
        if (device.info.kind !== 'host' || allocation.memoryBytes === 'none') return device;
        const known = limited.get(device) ?? limitedHost(device, allocation.memoryBytes);
        limited.set(device, known);
        return known;
      });
  };
  return {
    get devices() {
      return within(discovery.devices);
    },
    get notes() {
      return [...discovery.notes, allocationWords(allocation, within(discovery.devices))];
    },
    async rescan() {
      const { appeared, vanished } = await discovery.rescan();
      return { appeared: within(appeared), vanished: within(vanished) };
    },
    close: () => discovery.close(),
  };
}

/** The host as the job may fill it; what other jobs of the node hold is not its own. */
function limitedHost(host: Device, limitBytes: number): Device {
  return {
    info: host.info,
    processes: () => host.processes(),
    read() {
      const reading = host.read();
      return reading instanceof Promise
        ? reading.then((one) => limitedReading(one, limitBytes))
        : limitedReading(reading, limitBytes);
    },
  };
}

function limitedReading(reading: MemoryReading, limitBytes: number): MemoryReading {
  const { totalBytes, freeBytes } = reading;
  if (isKnown(totalBytes) && totalBytes <= limitBytes) return reading;
  const free = isKnown(freeBytes) ? Math.min(freeBytes, limitBytes) : 'unknown';
  return {
    ...reading,
    totalBytes: limitBytes,
    freeBytes: free,
    usedBytes: isKnown(free) ? limitBytes - free : 'unknown',
  };
}

function allocationWords({ jobId, memoryBytes }: Allocation, devices: readonly Device[]): string {
  const gpus = devices.filter(({ info }) => info.kind === 'gpu').map(({ info }) => info.id);
  const memory = memoryBytes === 'none' ? 'the host' : `${formatBytes(memoryBytes)} of the host`;
  return `Inside job ${jobId} of Slurm: only ${[...gpus, memory].join(', ')} are used.`;
}

/** Seconds until the allocation ends; `unknown` where it has no limit or Slurm does not answer. */
export async function secondsLeftOf(
  jobId: string,
  run: SlurmCommand,
  nowMs: number,
): Promise<Known<number>> {
  try {
    const text = await run('squeue', ['--json', `--jobs=${jobId}`]);
    const [job = {}] = objectsIn(slurmDocument(text, 'squeue')['jobs']);
    const [limit, end] = [numberIn(job['time_limit']), numberIn(job['end_time'])];
    // Without a limit Slurm writes an end in a year, none, or one that has passed.
    const left = end === 'unknown' ? 0 : end - nowMs / 1000;
    return limit === 'unknown' || left <= 0 ? 'unknown' : left;
  } catch {
    return 'unknown';
  }
}
