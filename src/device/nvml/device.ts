import { existsSync } from 'node:fs';
import type { Known } from '../../units/known.js';
import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type MemoryReading,
  type ProcessReading,
} from '../device.js';
import { ProcessNames, sortProcesses, visiblePids } from '../process-names.js';
import { describeNvmlCode, type MemoryCall, meansLost, nvmlCodes, readBytes64 } from './layouts.js';
import type { NvmlFunction, NvmlLibrary, NvmlSymbol } from './library.js';
import {
  decodeProcessRecords,
  largestRecordBytes,
  type ProcessRecord,
  probeStride,
  type RecordStride,
  unwrittenByte,
} from './process-records.js';

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

/** The lists a device keeps, and the functions that give each: newest first, with their record. */
const lists: readonly (readonly (readonly [NvmlSymbol, RecordStride])[])[] = [
  [
    ['nvmlDeviceGetComputeRunningProcesses_v3', 24],
    ['nvmlDeviceGetComputeRunningProcesses_v2', 24],
    ['nvmlDeviceGetComputeRunningProcesses', 16],
  ],
  [
    ['nvmlDeviceGetGraphicsRunningProcesses_v3', 24],
    ['nvmlDeviceGetGraphicsRunningProcesses_v2', 24],
    ['nvmlDeviceGetGraphicsRunningProcesses', 16],
  ],
  [
    ['nvmlDeviceGetMPSComputeRunningProcesses_v3', 24],
    ['nvmlDeviceGetMPSComputeRunningProcesses_v2', 24],
    ['nvmlDeviceGetMPSComputeRunningProcesses', 16],
  ],
];

/** Processes come and go between two calls; after this many tries the list is called unknown. */
const tries = 5;

/** More processes than this on one GPU is no answer to believe: it would be 32 MiB of records. */
const maxProcesses = 1_000_000;

/**
 * All processes on a device, each once. A process that computes and draws is in two lists with the
 * same memory, so the larger figure counts and not their sum. `unknown` when no list can be had.
 */
function queryRunningProcesses(
  library: NvmlLibrary,
  handle: number,
  known: { totalBytes: Known<number>; isRunning: (pid: number) => boolean },
): Known<readonly ProcessRecord[]> {
  const merged = new Map<number, ProcessRecord>();
  let answered = false;
  for (const functions of lists) {
    const records = queryList(library, handle, functions, known);
    if (records === 'unknown') continue;
    answered = true;
    for (const record of records) {
      const other = merged.get(record.pid);
      if (other === undefined || isLarger(record, other)) merged.set(record.pid, record);
    }
  }
  return answered ? [...merged.values()] : 'unknown';
}

function queryList(
  library: NvmlLibrary,
  handle: number,
  functions: readonly (readonly [NvmlSymbol, RecordStride])[],
  known: { totalBytes: Known<number>; isRunning: (pid: number) => boolean },
): Known<readonly ProcessRecord[]> {
  const counter = new ArrayBuffer(8);
  const count = new DataView(counter);
  const countAddress = library.addressOf(counter);
  for (const [symbol, expected] of functions) {
    const call = library.find(symbol);
    if (call === undefined) continue;
    // Asked with no room, it answers how many there are.
    let code = call(handle, countAddress, 0);
    if (code === nvmlCodes.success) return [];
    for (let attempt = 0; attempt < tries && code === nvmlCodes.insufficientSize; attempt += 1) {
      const room = Math.min(count.getUint32(0, true), maxProcesses) * 2 + 5;
      const records = new ArrayBuffer(room * largestRecordBytes);
      const bytes = new Uint8Array(records).fill(unwrittenByte);
      count.setUint32(0, room, true);
      code = call(handle, countAddress, library.addressOf(records));
      if (code === nvmlCodes.success) {
        const written = Math.min(count.getUint32(0, true), room);
        const stride = probeStride(bytes, written, { expected, ...known });
        return decodeProcessRecords(bytes, written, stride);
      }
    }
    // The library may export a function that its driver does not have: the older one is next.
    if (code !== nvmlCodes.functionNotFound) return 'unknown';
  }
  return 'unknown';
}

function isLarger(a: ProcessRecord, b: ProcessRecord): boolean {
  if (a.usedBytes === 'unknown') return false;
  return b.usedBytes === 'unknown' || a.usedBytes > b.usedBytes;
}
