import type { Discovery } from '../../../device/discover.js';
import { assumedContext } from '../../../estimate/cards/gpu-table.js';
import { findGpu, type GpuEntry } from '../../../estimate/cards/gpus.js';
import { Failure } from '../../../failure.js';

/** What a process takes of each device before it has anything there; of the host that is nothing. */
export function contextBytesOn(
  { devices }: Pick<Discovery, 'devices'>,
  configured: readonly GpuEntry[] | undefined,
): (deviceId: string) => number {
  const known = new Map<string, number>();
  return (deviceId) => {
    const info = devices.find((device) => device.info.id === deviceId)?.info;
    if (info === undefined || info.kind === 'host') return 0;
    const bytes = known.get(info.name) ?? contextOf(info.name, configured);
    known.set(info.name, bytes);
    return bytes;
  };
}

function contextOf(name: string, configured: readonly GpuEntry[] | undefined): number {
  try {
    return findGpu(name, configured).context.bytes;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return assumedContext.bytes;
  }
}
