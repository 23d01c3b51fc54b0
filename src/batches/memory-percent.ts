import { hostProvider } from '../device/host/provider.js';
import type { Device } from '../device/types.js';
import { isKnown } from '../units/known.js';

/** How full the memory is, 0 to 100; undefined where it is not known. */
export type MemoryProbe = () => number | undefined | Promise<number | undefined>;

/**
 * How full a device is, now.
 *
 * @example
 * const probe = await hostMemoryPercent();
 * console.log(await probe()); // 41.5
 */
export function deviceMemoryPercent(device: Pick<Device, 'read'>): MemoryProbe {
  return async () => {
    const { usedBytes, totalBytes } = await device.read();
    if (!isKnown(usedBytes) || !isKnown(totalBytes) || totalBytes === 0) return undefined;
    return (usedBytes / totalBytes) * 100;
  };
}

/** The memory of this machine, or of the cgroup that this process is in. */
export async function hostMemoryPercent(): Promise<MemoryProbe> {
  const [host] = (await hostProvider().list()).devices;
  return host === undefined ? () => undefined : deviceMemoryPercent(host);
}
