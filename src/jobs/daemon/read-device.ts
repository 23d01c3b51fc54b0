import { type Device, DeviceLost, type MemoryReading } from '../../device/contract.js';

/** One reading; undefined where the device is gone. */
export async function readDevice(device: Device): Promise<MemoryReading | undefined> {
  try {
    return await device.read();
  } catch (error) {
    if (!(error instanceof DeviceLost)) throw error;
    return undefined;
  }
}
