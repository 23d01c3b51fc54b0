import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../../config/environment.js';
import type { Settings } from '../../config/settings.js';
import type { Discovery } from '../../device/discover.js';
import { machineRoots } from '../../device/kernel-files.js';
import { selectDevices } from '../../device/select-devices.js';
import type { Device } from '../../device/types.js';
import { checkEnvironment } from '../../plan/environment/check.js';
import { measuredCosts } from '../../plan/environment/job-environment.js';
import type { EnvironmentContext, EnvironmentFinding } from '../../plan/environment/types.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';
import { watch } from '../../watch/watch.js';
import { type Advice, bytesSaved, type Saving, unknownSaving } from './advice.js';
import { deviceAdvice, type SeenDevice } from './device-advice.js';
import { type Check, checkSharedMemory, freeBytesAt } from './doctor.js';
import { nodeAdvice, runningNodePrograms } from './node-advice.js';

export interface MachineLook {
  readonly devices: readonly SeenDevice[];
  readonly advice: readonly Advice[];
  /** What jobs on this machine should have in their environment. */
  readonly context: EnvironmentContext;
  readonly notes: readonly string[];
}

export interface MachineLookOptions extends Omit<LookOptions, 'devices'> {
  readonly settings: Settings;
  readonly environment: Environment;
  /** What was checked already; where it is left out, only what takes no time is. */
  readonly checks?: readonly Check[] | undefined;
}

const sharedMemory = '/dev/shm';

/** What could be better on this machine now. */
export async function machineLook(options: MachineLookOptions): Promise<MachineLook> {
  const { settings, environment, discovery } = options;
  const devices = await seenDevices({
    ...options,
    devices:
      settings.devices.length === 0
        ? undefined
        : selectDevices(discovery.devices, settings.devices),
  });
  const host = devices.find(({ kind }) => kind === 'host');
  const context = contextOf(devices);
  const checks = options.checks ?? [checkSharedMemory(freeBytesAt(sharedMemory))];
  const left = process.platform === 'linux' ? leftOverMemory(sharedMemory, machineRoots.proc) : [];
  return {
    devices,
    advice: [
      ...devices.flatMap((device) => deviceAdvice(device, fullPercent(device, settings))),
      ...leftOverAdvice(left, host?.totalBytes ?? 'unknown', sharedMemory),
      ...environmentAdvice(checkEnvironment(environment, context)),
      ...(host === undefined ? [] : nodeAdviceOn(host)),
      ...checks.flatMap(checkAdvice),
    ],
    context,
    notes: discovery.notes,
  };
}

function contextOf(devices: readonly SeenDevice[]): EnvironmentContext {
  const gpus = devices.filter(({ kind }) => kind === 'gpu');
  const vendor = gpus.some(({ source }) => source === 'amdgpu') ? 'amd' : 'nvidia';
  return { mode: 'production', vendor, cores: availableParallelism(), gpus: gpus.length };
}

function fullPercent({ kind }: SeenDevice, { alerts }: Settings): number {
  return kind === 'gpu' ? alerts.gpuWarningPercent : alerts.memoryWarningPercent;
}

function nodeAdviceOn({ processes, totalBytes }: SeenDevice): readonly Advice[] {
  if (!isKnown(processes) || !isKnown(totalBytes)) return [];
  return nodeAdvice(runningNodePrograms(processes, machineRoots.proc), totalBytes);
}

function checkAdvice({ name, state, fact, next }: Check): Advice[] {
  if (state === 'ok' || state === 'absent' || next === undefined) return [];
  return [{ code: `check-${name}`, fact, steps: [next], saves: unknownSaving }];
}

interface LookOptions {
  readonly discovery: Discovery;
  /** Only these; all of them when left out. */
  readonly devices?: readonly Device[] | undefined;
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** Between two looks at who holds what, where the whole look takes a second. */
const processSeconds = 0.5;

/** Watches all devices for a while; no alert is sent anywhere. */
async function seenDevices({
  discovery,
  devices,
  seconds,
  signal,
}: LookOptions): Promise<readonly SeenDevice[]> {
  const watching = watch({
    discovery,
    ...(devices && { devices }),
    durationSeconds: seconds,
    processIntervalSeconds: Math.max(processSeconds, seconds / 60),
    signal,
  });
  await watching.closed;
  return watching.states().map((state) => seenDevice(state, seconds));
}

/** What advice needs of what was watched. */
function seenDevice(state: DeviceState, watchedSeconds: number): SeenDevice {
  const { info, latest, processes, leak, processLeaks } = state;
  const { allocator, host } = latest;
  return {
    ...info,
    totalBytes: latest.totalBytes,
    usedBytes: latest.usedBytes,
    busiestPercent: busiest(state),
    watchedSeconds,
    processes,
    leak,
    processLeaks,
    cachedBytes: allocator ? allocator.reservedBytes - allocator.allocatedBytes : 'unknown',
    stalledPercent: host?.pressureSomePercent ?? 'unknown',
    swapUsedBytes: host?.swapUsedBytes ?? 'unknown',
  };
}

function busiest({ history, latest }: DeviceState): Known<number> {
  if (!isKnown(latest.utilizationPercent)) return 'unknown';
  const known = history.series('utilization').max.filter((value) => !Number.isNaN(value));
  return Math.max(latest.utilizationPercent, ...known);
}

/** Shared memory of a process that is gone. */
interface LeftOver {
  readonly pid: number;
  readonly files: number;
  readonly bytes: number;
}

/** A loader makes some thousand files at most; beyond that a summary is enough. */
const maxFiles = 100_000;
const leastBytes = MiB;

/**
 * Tensors that DataLoader workers shared through files and never removed: PyTorch names such a file after
 * the process that made it (`torch_PID_...`). Only the files of this user whose process is gone.
 */
export function leftOverMemory(folder: string, procRoot: string): readonly LeftOver[] {
  const found = new Map<number, LeftOver>();
  for (const name of namesIn(folder)) {
    const pid = Number(/^torch_(\d{1,10})_/.exec(name)?.[1]);
    if (!Number.isSafeInteger(pid) || pid <= 0 || existsSync(join(procRoot, String(pid)))) continue;
    const bytes = ownBytes(join(folder, name));
    if (bytes === undefined) continue;
    const before = found.get(pid) ?? { pid, files: 0, bytes: 0 };
    found.set(pid, { pid, files: before.files + 1, bytes: before.bytes + bytes });
  }
  return [...found.values()].filter(({ bytes }) => bytes >= leastBytes);
}

export function leftOverAdvice(
  found: readonly LeftOver[],
  hostBytes: Known<number>,
  folder: string,
): readonly Advice[] {
  const host = { id: 'host', totalBytes: hostBytes, provenance: 'measured' } as const;
  return found.map(({ pid, files, bytes }) => ({
    code: 'left-over-shared-memory',
    fact: `Process ${pid} is gone and left ${formatBytes(bytes)} of shared memory (${files === 1 ? '1 file' : `${files} files`}).`,
    steps: [`rm ${join(folder, `torch_${pid}_`)}*`],
    saves: bytesSaved(bytes, host),
  }));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).slice(0, maxFiles);
  } catch {
    // There is none on this system.
    return [];
  }
}

/** What the file takes; undefined where it is not ours, or is gone by now. */
function ownBytes(path: string): number | undefined {
  try {
    const stats = lstatSync(path);
    const me = process.getuid?.();
    if (!stats.isFile() || (me !== 0 && stats.uid !== me)) return undefined;
    return stats.blocks * 512;
  } catch {
    return undefined;
  }
}

/** What must change, one advice each; what could be better, together. */
export function environmentAdvice(findings: readonly EnvironmentFinding[]): readonly Advice[] {
  const required = findings.filter(({ severity }) => severity === 'required');
  const others = findings.filter(({ severity }) => severity === 'advice');
  return [
    ...required.map(({ name, value, reason, fix, kind }) => ({
      code: kind,
      fact: `${name}${value === undefined ? ' is not set' : `=${value}`}: ${reason}`,
      steps: [fix],
      saves: savingOf(name, kind),
    })),
    ...(others.length === 0 ? [] : [together(others)]),
  ];
}

/** A factor of 2 means that half of the time is saved. */
function savingOf(name: string, kind: EnvironmentFinding['kind']): Saving {
  const cost = measuredCosts[name];
  if (cost === undefined || kind !== 'debug-setting') return unknownSaving;
  return {
    kind: 'time',
    lowShare: 1 - 1 / cost.low,
    highShare: 1 - 1 / cost.high,
    source: 'measured',
    where: 'on an H200',
  };
}

function together(findings: readonly EnvironmentFinding[]): Advice {
  const names = findings.map(({ name }) => name).join(', ');
  return {
    code: 'environment',
    fact: `Recommended for production and not set so: ${names}.`,
    steps: ['source <(plimsoll env --mode production --format shell)'],
    saves: unknownSaving,
  };
}
