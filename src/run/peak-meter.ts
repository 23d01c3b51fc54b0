import { isKnown, type Known } from '../units/known.js';
import { type LimitCgroup, limitOf, readCgroup } from './limit/cgroup.js';
import type { ProcessBytes } from './processes/memory-holders.js';
import { readResident } from './processes/process-table.js';
import type { PeakSource } from './types.js';

export interface MemorySample {
  readonly heldBytes: Known<number>;
  /** Bytes of host memory of each process. */
  readonly processes: readonly ProcessBytes[];
}

/** How much memory an attempt took at most, by the best that can see it. */
export interface PeakMeter {
  /** Looks now; on a GPU `heldBytes` is what its driver said last. */
  sample(pids: readonly number[]): MemorySample;
  /** Notes the bytes that a GPU's driver reports for these processes. */
  sawOnDevice(bytes: number): void;
  /** The most address space that one process had. */
  readonly mappedBytes: Known<number>;
  peak(fromSdk: Known<number>): { readonly bytes: Known<number>; readonly from: PeakSource };
}

export function createPeakMeter(options: {
  readonly procRoot: string;
  readonly cgroup: LimitCgroup | undefined;
  readonly onGpu: boolean;
}): PeakMeter {
  const { procRoot, cgroup } = options;
  let held = 0;
  let resident = 0;
  let own = 0;
  let onDevice = 0;
  let latestOnDevice: Known<number> = 'unknown';
  let mapped = 0;
  return {
    sample(pids) {
      const reading = cgroup === undefined ? undefined : readCgroup(cgroup);
      if (reading !== undefined && isKnown(reading.heldBytes))
        held = Math.max(held, reading.heldBytes);
      // Of one process the kernel remembers the peak itself; of several only their sum now is true.
      let sum = 0;
      const processes: ProcessBytes[] = [];
      for (const pid of pids) {
        const bytes = readResident(procRoot, pid);
        if (bytes === undefined) continue;
        sum += bytes.nowBytes;
        processes.push({ pid, bytes: bytes.nowBytes });
        resident = Math.max(resident, bytes.peakBytes);
        own = Math.max(own, bytes.peakOwnBytes);
        mapped = Math.max(mapped, bytes.peakMappedBytes);
      }
      resident = Math.max(resident, sum);
      if (options.onGpu) return { heldBytes: latestOnDevice, processes };
      const inCgroup = reading?.heldBytes ?? 'unknown';
      return { heldBytes: isKnown(inCgroup) ? inCgroup : sum, processes };
    },
    sawOnDevice(bytes) {
      latestOnDevice = bytes;
      onDevice = Math.max(onDevice, bytes);
    },
    get mappedBytes() {
      return mapped > 0 ? mapped : 'unknown';
    },
    peak(fromSdk) {
      if (options.onGpu) {
        if (isKnown(fromSdk) && fromSdk > 0) return { bytes: fromSdk, from: 'sdk' };
        return onDevice > 0
          ? { bytes: onDevice, from: 'nvml' }
          : { bytes: 'unknown', from: 'unknown' };
      }
      const killed = cgroup !== undefined && Number(readCgroup(cgroup).kills) > 0;
      const limit = killed ? limitOf(cgroup) : 'unknown';
      // It was killed because it reached the limit: no sample need have seen that.
      if (isKnown(limit)) return { bytes: limit, from: 'cgroup' };
      const most = cgroup === undefined ? 'unknown' : limitOf(cgroup);
      // What was before we came, only the program itself can tell.
      const sdkBytes = isKnown(fromSdk) ? fromSdk : 0;
      if (held > 0) {
        // The highest between two samples is what the kernel remembers of its largest process.
        const bytes = Math.min(Math.max(held, own, sdkBytes), isKnown(most) ? most : Infinity);
        return { bytes, from: 'cgroup' };
      }
      if (sdkBytes > resident) return { bytes: sdkBytes, from: 'sdk' };
      return resident > 0
        ? { bytes: resident, from: 'process' }
        : { bytes: 'unknown', from: 'unknown' };
    },
  };
}
