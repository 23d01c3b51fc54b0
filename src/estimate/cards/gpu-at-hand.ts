import { type Device, DeviceLost, type DeviceSource } from '../../device/device.js';
import { isKnown, type Known } from '../../units/known.js';
import { tracedGpu } from '../trace/traced-estimate.js';
import type { Wording } from '../wording.js';
import type { Gpu } from './gpu-table.js';
import { findGpu, type GpuEntry, gpusNamed } from './gpus.js';

/** A GPU that was found on this machine. */
export interface FoundGpu {
  readonly id: string;
  readonly name: string;
  readonly totalBytes: Known<number>;
}

/** A card to estimate for, and why it is this one. */
export interface ChosenGpu {
  readonly gpu: Gpu;
  /** Whether this machine has it. */
  readonly isHere: boolean;
  readonly notes: readonly string[];
}

/**
 * The card to estimate for where none was named: the first of this machine, as jobs take it, or
 * the one that is known best.
 *
 * @example
 * gpuAtHand([], [], callWording).gpu.name; // 'NVIDIA H200'
 * const found = [{ id: 'gpu:0', name: 'Tesla T4', totalBytes: 16106127360 }];
 * gpuAtHand(found, [], callWording).gpu.capability; // '7.5'
 */
export function gpuAtHand(
  found: readonly FoundGpu[],
  configured: readonly GpuEntry[],
  wording: Wording,
): ChosenGpu {
  const [first] = found;
  const usual = findGpu(tracedGpu, configured);
  if (first === undefined) {
    const note = `No GPU was found here, so this is for the ${usual.name}; another is named with ${wording.name('gpu')}.`;
    return { gpu: usual, isHere: false, notes: [note] };
  }
  const { id, name, totalBytes } = first;
  const gpu = inTable(name, totalBytes, configured);
  if (gpu !== undefined) {
    return { gpu, isHere: true, notes: [`This is for ${id}, which was found here.`] };
  }
  if (!isKnown(totalBytes)) {
    const note = `How much memory ${id} (${name}) has is unknown, so this is for the ${usual.name}.`;
    return { gpu: usual, isHere: false, notes: [note] };
  }
  const note = `${name}, found here as ${id}, is not in the table of cards: its capacity was read from it, its context is assumed.`;
  const read = findGpu(name, [{ name, capacityBytes: totalBytes }]);
  return { gpu: read, isHere: true, notes: [note] };
}

/** Cards of one name come with different memory (a vGPU, MIG); what was read counts. */
function inTable(
  name: string,
  totalBytes: Known<number>,
  configured: readonly GpuEntry[],
): Gpu | undefined {
  const [gpu, ...others] = gpusNamed(name, configured);
  // It is not there, or several could be meant.
  if (gpu === undefined || others.length > 0) return undefined;
  return isKnown(totalBytes) ? { ...gpu, capacityBytes: totalBytes } : gpu;
}

export type GpuHere = FoundGpu & { readonly source: DeviceSource };

/** The GPUs among devices, in their order, with what each says of its size. */
export function gpusAmong(devices: readonly Device[]): Promise<readonly GpuHere[]> {
  const gpus = devices.filter(({ info }) => info.kind === 'gpu');
  return Promise.all(
    gpus.map(async (device) => {
      const { id, name, source } = device.info;
      return { id, name, source, totalBytes: await totalOf(device) };
    }),
  );
}

async function totalOf(device: Device): Promise<FoundGpu['totalBytes']> {
  try {
    return (await device.read()).totalBytes;
  } catch (error) {
    if (!(error instanceof DeviceLost)) throw error;
    return 'unknown';
  }
}
