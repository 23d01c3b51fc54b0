import { existsSync } from 'node:fs';
import type { Known } from '../../units/known.js';
import { ProcessNames, visiblePids } from '../process-names.js';
import { sortProcesses } from '../sort-processes.js';
import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type MemoryReading,
  type ProcessReading,
} from '../types.js';
import { describeNvmlCode, meansLost, nvmlCodes } from './codes.js';
import { readBytes64 } from './layouts.js';
import type { NvmlFunction, NvmlLibrary } from './library.js';
import type { MemoryCall } from './memory-call.js';
import { queryRunningProcesses } from './running-processes.js';

/** The three figures of one memory reading. */
export interface MemoryBytes {
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly freeBytes: Known<number>;
}

/** How the driver can be asked about one device; renewed each time devices are listed. */
export interface NvmlAccess {
  readonly library: NvmlLibrary;
  readonly handle: number;
  readonly memory: MemoryCall | undefined;
}

const unknownMemory: MemoryBytes = {
  totalBytes: 'unknown',
  usedBytes: 'unknown',
  freeBytes: 'unknown',
};

/** A GPU or a MIG instance behind NVML. */
export class NvmlDevice implements Device {
  readonly info: DeviceInfo;
  readonly #procRoot: string;
  readonly #names: ProcessNames;
  readonly #isMigInstance: boolean;
  readonly #onLost: () => void;
  /** Undefined once the device is gone: a handle from an earlier time must not reach the driver. */
  #access: NvmlAccess | undefined;
  #utilization: NvmlFunction | undefined;
  readonly #rates = new DataView(new ArrayBuffer(8));
  #ratesAddress: number;

  constructor(
    info: DeviceInfo,
    access: NvmlAccess,
    options: { procRoot: string; onLost: () => void },
  ) {
    this.info = info;
    this.#procRoot = options.procRoot;
    this.#names = new ProcessNames(options.procRoot);
    this.#onLost = options.onLost;
    this.#isMigInstance = info.id.includes('/mig:');
    this.#access = access;
    this.#utilization = access.library.find('nvmlDeviceGetUtilizationRates');
    this.#ratesAddress = access.library.addressOf(this.#rates.buffer);
  }

  /** Handles die with the initialization they came from. */
  renew(access: NvmlAccess): void {
    this.#access = access;
    this.#utilization = access.library.find('nvmlDeviceGetUtilizationRates');
    this.#ratesAddress = access.library.addressOf(this.#rates.buffer);
  }

  /** The device is no longer listed, or the library is shut down. */
  retire(): void {
    this.#access = undefined;
  }

  read(): MemoryReading {
    const { totalBytes, usedBytes, freeBytes } = this.readMemoryBytes();
    return { totalBytes, usedBytes, freeBytes, utilizationPercent: this.#readUtilization() };
  }

  /** The memory alone: one driver call into a buffer made beforehand. Throws `DeviceLost`. */
  readMemoryBytes(): MemoryBytes {
    if (this.#access === undefined) return this.#failedMemory(nvmlCodes.gpuNotFound);
    const { memory, handle } = this.#access;
    if (memory === undefined) return unknownMemory;
    const code = memory.call(handle, memory.address);
    if (code !== nvmlCodes.success) return this.#failedMemory(code);
    const { view, layout } = memory;
    return {
      totalBytes: readBytes64(view, layout.total),
      usedBytes: readBytes64(view, layout.used),
      freeBytes: readBytes64(view, layout.free),
    };
  }

  processes(): Promise<Known<readonly ProcessReading[]>> {
    if (this.#access === undefined) return Promise.resolve('unknown');
    const { library, handle } = this.#access;
    // Asked for the layout of the records, and again for their pids; hundreds of them, each second.
    const running = new Map<number, boolean>();
    const isRunning = (pid: number) => {
      const known =
        running.get(pid) ?? (this.#names.has(pid) || existsSync(`${this.#procRoot}/${pid}`));
      running.set(pid, known);
      return known;
    };
    const records = queryRunningProcesses(library, handle, {
      totalBytes: this.#lastTotalBytes(),
      isRunning,
    });
    if (records === 'unknown') return Promise.resolve('unknown');
    const pids = visiblePids(
      this.#procRoot,
      records.map((record) => record.pid),
      isRunning,
    );
    return Promise.resolve(
      sortProcesses(
        records.map(({ pid, usedBytes }) => {
          const here = pids.get(pid);
          const name = here === undefined ? 'unknown' : this.#names.nameOf(here);
          return { pid: here ?? pid, name, usedBytes };
        }),
      ),
    );
  }

  #failedMemory(code: number): MemoryBytes {
    if (!meansLost(code, this.#isMigInstance)) return unknownMemory;
    this.#onLost();
    throw new DeviceLost(this.info.id, describeNvmlCode(code));
  }

  #readUtilization(): Known<number> {
    if (this.#utilization === undefined || this.#access === undefined) return 'unknown';
    const code = this.#utilization(this.#access.handle, this.#ratesAddress);
    if (code === nvmlCodes.success) {
      // The second figure, `memory`, is time the memory bus was busy, not how full it is.
      const percent = this.#rates.getUint32(0, true);
      return percent <= 100 ? percent : 'unknown';
    }
    // MIG instances and some boards never tell; asking each time would only cost.
    if (code === nvmlCodes.notSupported) this.#utilization = undefined;
    return 'unknown';
  }

  #lastTotalBytes(): Known<number> {
    const memory = this.#access?.memory;
    if (memory === undefined || memory.code !== nvmlCodes.success) return 'unknown';
    return readBytes64(memory.view, memory.layout.total);
  }
}
