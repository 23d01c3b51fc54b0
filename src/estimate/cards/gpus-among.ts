import { type Device, DeviceLost, type DeviceSource } from '../../device/types.js';
import type { FoundGpu } from './gpu-at-hand.js';

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
