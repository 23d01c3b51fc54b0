import type { Settings } from '../../config/settings.js';
import { type Device, DeviceLost, type DeviceSource } from '../../device/contract.js';
import type { FoundGpu } from '../../estimate/cards/gpu-at-hand.js';
import { openDevices } from './watching.js';

type GpuHere = FoundGpu & { readonly source: DeviceSource };

/** The GPUs of this machine, in their order. */
export async function gpusHere(settings: Settings): Promise<readonly GpuHere[]> {
  const discovery = await openDevices(settings);
  try {
    return await gpusAmong(discovery.devices);
  } finally {
    discovery.close();
  }
}

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
