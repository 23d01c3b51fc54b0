import type { Settings } from '../config/settings.js';
import { type Device, DeviceLost, type DeviceSource } from '../device/contract.js';
import type { FoundGpu } from '../estimate/gpu-at-hand.js';
import { openDevices } from './watching.js';

/** The GPUs of this machine, in their order. */
export async function gpusHere(
  settings: Settings,
): Promise<readonly (FoundGpu & { readonly source: DeviceSource })[]> {
  const discovery = await openDevices(settings);
  try {
    const gpus = discovery.devices.filter(({ info }) => info.kind === 'gpu');
    return await Promise.all(
      gpus.map(async (device) => {
        const { id, name, source } = device.info;
        return { id, name, source, totalBytes: await totalOf(device) };
      }),
    );
  } finally {
    discovery.close();
  }
}

async function totalOf(device: Device): Promise<FoundGpu['totalBytes']> {
  try {
    return (await device.read()).totalBytes;
  } catch (error) {
    if (!(error instanceof DeviceLost)) throw error;
    return 'unknown';
  }
}
