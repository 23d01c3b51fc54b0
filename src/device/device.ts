import type { Known } from '../units/known.js';

export type DeviceSource = 'nvml' | 'nvidia-smi' | 'amdgpu' | 'host' | 'simulated';

/** The fixed facts about a device. */
export interface DeviceInfo {
  /** `gpu:0`, `gpu:0/mig:1`, `host`. */
  readonly id: string;
  readonly kind: 'gpu' | 'host';
  readonly name: string;
  readonly source: DeviceSource;
  /** Simulated devices say so wherever they show. */
  readonly provenance: 'measured' | 'simulated';
  readonly uuid: Known<string>;
  readonly driver: Known<string>;
}

/** Memory of a device at one instant. All bytes are integers. */
export interface MemoryReading {
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  /** How busy the processor of the device is, 0 to 100; not how full its memory is. */
  readonly utilizationPercent: Known<number>;
  /** The report of a caching allocator in a process, if there is one (SDK, recorded traces). */
  readonly allocator?: AllocatorReading;
  /** Only the host has these. */
  readonly host?: HostReading;
}

export interface AllocatorReading {
  /** Live tensors. */
  readonly allocatedBytes: number;
  /** Bytes the allocator holds from the driver, cached blocks included. */
  readonly reservedBytes: number;
  /** The most it may reserve. */
  readonly limitBytes: number;
}

export interface HostReading {
  readonly swapTotalBytes: Known<number>;
  readonly swapUsedBytes: Known<number>;
  /** The cgroup limit that holds for this process, when it is below the machine's RAM. */
  readonly limitBytes: Known<number> | 'none';
  /** Which of them gave totalBytes. */
  readonly limitedBy: 'ram' | 'cgroup-v1' | 'cgroup-v2';
  /** Share of the last 10 s in which some (or all) tasks stalled on memory, 0 to 100. */
  readonly pressureSomePercent: Known<number>;
  readonly pressureFullPercent: Known<number>;
}

export interface ProcessReading {
  readonly pid: number;
  readonly name: Known<string>;
  readonly usedBytes: Known<number>;
}

/**
 * A pool of memory with a capacity: a GPU, a MIG instance, or the host.
 * Every implementation passes `conformance.suite.ts`.
 */
export interface Device {
  readonly info: DeviceInfo;
  /**
   * One reading, now. Throws a `DeviceLost` when the device is gone; what cannot be read while it
   * is there is `unknown` in the reading, not an error. Synchronous where the driver is.
   */
  read(): MemoryReading | Promise<MemoryReading>;
  /** Processes that hold memory on the device, largest first; `unknown` when we may not see them. */
  processes(): Promise<Known<readonly ProcessReading[]>>;
}

/** The device was there and is not any more (fell off the bus, driver unloaded, MIG destroyed). */
export class DeviceLost extends Error {
  readonly deviceId: string;

  constructor(deviceId: string, reason: string) {
    super(reason);
    this.name = 'DeviceLost';
    this.deviceId = deviceId;
  }
}

/** One way to find devices: NVML, nvidia-smi, sysfs, the host, a simulation. */
export interface DeviceProvider {
  readonly source: DeviceSource;
  /**
   * The devices there now, and notes on what could not be seen and why. A device that was listed
   * before and is still there is the same object again.
   */
  list(): Promise<{ devices: readonly Device[]; notes: readonly string[] }>;
  /** Cheap and changes when `list()` would answer differently. */
  fingerprint(): Promise<string>;
  close(): void;
}
