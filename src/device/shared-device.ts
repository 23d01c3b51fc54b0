import type { Clock } from '../time/clock.js';
import type { Known } from '../units/known.js';
import type { Device, DeviceInfo, MemoryReading, ProcessReading } from './device.js';
import type { Discovery } from './discover.js';

/** Longer than a busy device is left without a look at its jobs, which reads the list. */
const freshListSeconds = 1.5;

/** A value with the time at which its reading began: what happened later is not in it. */
export interface Timed<Value> {
  readonly beganAtSeconds: number;
  readonly value: Value;
}

/**
 * A device that several parts of one program look at. Each new reading is for all of them: who asks
 * for the latest one gets it without another call to the driver.
 *
 * @example
 * const device = new SharedDevice(gpu, systemClock);
 * await device.read(); // asks the driver
 * await device.latest(systemClock.seconds() - 1); // the same reading
 */
export class SharedDevice implements Device {
  readonly info: DeviceInfo;
  readonly #device: Device;
  readonly #clock: Clock;
  #reading: Timed<MemoryReading> | undefined;
  #processes: Timed<Promise<Known<readonly ProcessReading[]>>> | undefined;

  constructor(device: Device, clock: Clock) {
    this.info = device.info;
    this.#device = device;
    this.#clock = clock;
  }

  read(): MemoryReading | Promise<MemoryReading> {
    const beganAtSeconds = this.#clock.seconds();
    const keep = (value: MemoryReading): MemoryReading => {
      this.#reading = { beganAtSeconds, value };
      return value;
    };
    const reading = this.#device.read();
    return reading instanceof Promise ? reading.then(keep) : keep(reading);
  }

  /** The last reading that began at `notBeforeSeconds` or later; else a new one. */
  async latest(notBeforeSeconds: number): Promise<Timed<MemoryReading>> {
    if (this.#reading !== undefined && this.#reading.beganAtSeconds >= notBeforeSeconds) {
      return this.#reading;
    }
    const beganAtSeconds = this.#clock.seconds();
    return { beganAtSeconds, value: await this.read() };
  }

  /** Lists cost more than readings and change less: one that another part read just now will do. */
  processes(): Promise<Known<readonly ProcessReading[]>> {
    const last = this.#processes;
    const isFresh =
      last !== undefined && this.#clock.seconds() - last.beganAtSeconds < freshListSeconds;
    return (isFresh ? last : this.#readProcesses()).value;
  }

  /** The last list that began at `notBeforeSeconds` or later; else a new one. */
  latestProcesses(notBeforeSeconds: number): Timed<Promise<Known<readonly ProcessReading[]>>> {
    const last = this.#processes;
    return last !== undefined && last.beganAtSeconds >= notBeforeSeconds
      ? last
      : this.#readProcesses();
  }

  #readProcesses(): Timed<Promise<Known<readonly ProcessReading[]>>> {
    const list = { beganAtSeconds: this.#clock.seconds(), value: this.#device.processes() };
    this.#processes = list;
    // Its caller hears of a failure; the next one asks again.
    list.value.catch(() => {
      if (this.#processes === list) this.#processes = undefined;
    });
    return list;
  }
}

/** A discovery whose devices share their readings among those who look at them. */
export interface SharedDiscovery extends Discovery {
  readonly devices: readonly SharedDevice[];
}

export function shareReadings(discovery: Discovery, clock: Clock): SharedDiscovery {
  // One for each device for as long as that is there: devices are told apart by identity.
  const known = new WeakMap<Device, SharedDevice>();
  const shared = (device: Device): SharedDevice => {
    const before = known.get(device);
    if (before !== undefined) return before;
    const made = new SharedDevice(device, clock);
    known.set(device, made);
    return made;
  };
  return {
    get devices() {
      return discovery.devices.map(shared);
    },
    get notes() {
      return discovery.notes;
    },
    async rescan() {
      const { appeared, vanished } = await discovery.rescan();
      return { appeared: appeared.map(shared), vanished: vanished.map(shared) };
    },
    close: () => discovery.close(),
  };
}
