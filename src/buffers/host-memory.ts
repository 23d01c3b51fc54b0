import { freemem, totalmem } from 'node:os';
import { hostProvider } from '../device/host/provider.js';
import { isKnown } from '../units/known.js';

export interface MemoryReading {
  readonly usedBytes: number;
  readonly totalBytes: number;
}

/** Reads the memory of this machine, or of the cgroup that this process is in. */
export function hostMemory(): () => Promise<MemoryReading | undefined> {
  const provider = hostProvider();
  return async () => {
    const [host] = (await provider.list()).devices;
    const { usedBytes = 'unknown', totalBytes = 'unknown' } = (await host?.read()) ?? {};
    return isKnown(usedBytes) && isKnown(totalBytes) ? { usedBytes, totalBytes } : undefined;
  };
}

/** A reading at once, until the first one with cgroups arrives. */
export function firstReading(): MemoryReading {
  const totalBytes = totalmem();
  return { usedBytes: totalBytes - freemem(), totalBytes };
}
