import { availableParallelism } from 'node:os';
import type { Settings } from '../config/settings.js';
import type { Environment } from '../config/variables.js';
import { machineRoots } from '../device/roots.js';
import { selectDevices } from '../device/select-devices.js';
import { type Check, checkSharedMemory } from '../doctor/checks.js';
import { freeBytes } from '../doctor/examine.js';
import { checkEnvironment } from '../plan/environment/check.js';
import type { EnvironmentContext } from '../plan/environment/types.js';
import { isKnown } from '../units/known.js';
import { type Advice, unknownSaving } from './advice.js';
import { deviceAdvice, type SeenDevice } from './device-advice.js';
import { environmentAdvice } from './environment-advice.js';
import { leftOverAdvice, leftOverMemory } from './left-over-memory.js';
import { nodeAdvice } from './node-advice.js';
import { runningNodePrograms } from './node-programs.js';
import { type LookOptions, seenDevices } from './seen-device.js';

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
  const checks = options.checks ?? [checkSharedMemory(freeBytes(sharedMemory))];
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
