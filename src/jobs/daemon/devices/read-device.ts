import type { Device, MemoryReading } from '../../../device/types.js';

/** One reading; undefined where the device is gone, or its driver has trouble: the next may succeed. */
export async function readDevice(device: Device): Promise<MemoryReading | undefined> {
  try {
    return await device.read();
  } catch {
    return undefined;
  }
}
