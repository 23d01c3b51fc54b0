import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import { type GpuHere, gpusAmong } from '../../estimate/cards/gpu-at-hand.js';

/** The GPUs of this machine, in their order. */
export async function gpusHere(settings: Settings): Promise<readonly GpuHere[]> {
  const discovery = await openDevices(settings);
  try {
    return await gpusAmong(discovery.devices);
  } finally {
    discovery.close();
  }
}
