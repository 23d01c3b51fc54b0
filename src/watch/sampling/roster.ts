import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type MemoryReading,
  type ProcessReading,
} from '../../device/device.js';
import type { Known } from '../../units/known.js';

/** What changed among the devices since it was last asked. */
export interface DeviceChanges {
  readonly appeared: readonly Device[];
  readonly vanished: readonly Device[];
}

export interface RosterEvents extends Omit<ReaderEvents, 'gone'> {
  /** A device that was not there at the start, or is there again. */
  appeared(device: Device): void;
  vanished(device: Device, reason: string): void;
}

/** The same device again after it was away, even under another number, has the same key. */
export function deviceKey(info: DeviceInfo): string {
  return info.uuid === 'unknown' ? info.id : info.uuid;
}

/**
 * Who is watched. A device that is lost is no longer read; it is tried again when asked to, and
 * nothing is told of it until it answers. For each device, appeared and vanished take turns.
 */
export class Roster {
  readonly #events: RosterEvents;
  readonly #seconds: () => number;
  readonly #readers = new Map<string, DeviceReader>();
  /** Gone by their own word, though the discovery may still list them. */
  readonly #lost = new Map<string, Device>();
  /** Lost, and being tried: they have a reader. */
  readonly #tried = new Set<string>();
  readonly #readerEvents: ReaderEvents;

  constructor(events: RosterEvents, seconds: () => number) {
    this.#events = events;
    this.#seconds = seconds;
    const isTried = (device: Device): boolean => this.#tried.has(deviceKey(device.info));
    this.#readerEvents = {
      sample: (device, reading, processes) => {
        if (this.#tried.delete(deviceKey(device.info))) events.appeared(device);
        events.sample(device, reading, processes);
      },
      processes: (device, processes) => {
        if (!isTried(device)) events.processes(device, processes);
      },
      late: (device, missed) => {
        if (!isTried(device)) events.late(device, missed);
      },
      gone: (device, reason) => this.#gone(device, reason),
      broken: (error) => events.broken(error),
    };
  }

  take(device: Device): void {
    const key = deviceKey(device.info);
    this.#readers.get(key)?.stop();
    this.#readers.set(key, new DeviceReader(device, this.#readerEvents, this.#seconds));
  }

  apply(changes: DeviceChanges): void {
    for (const device of changes.vanished) {
      const watched = this.#forget(device);
      if (watched) this.#events.vanished(device, 'It is no longer listed.');
    }
    for (const device of changes.appeared) {
      const watched = this.#forget(device);
      if (!watched) this.#events.appeared(device);
      this.take(device);
    }
  }

  retryLost(): void {
    for (const [key, device] of this.#lost) {
      this.#lost.delete(key);
      this.#tried.add(key);
      this.take(device);
    }
  }

  tick(missed: number): void {
    for (const reader of this.#readers.values()) reader.tick(missed);
  }

  readProcesses(): void {
    for (const reader of this.#readers.values()) reader.readProcesses();
  }

  /** Resolves when nothing that is in flight now is so any more. */
  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#readers.values(), (reader) => reader.idle()));
  }

  stop(): void {
    for (const reader of this.#readers.values()) reader.stop();
  }

  #gone(device: Device, reason: string): void {
    const key = deviceKey(device.info);
    this.#readers.delete(key);
    this.#lost.set(key, device);
    if (!this.#tried.delete(key)) this.#events.vanished(device, reason);
  }

  /** Whether people still think it is there. */
  #forget(device: Device): boolean {
    const key = deviceKey(device.info);
    this.#lost.delete(key);
    const tried = this.#tried.delete(key);
    this.#readers.get(key)?.stop();
    return this.#readers.delete(key) && !tried;
  }
}

/** A device that fails this often in a row, for any reason, counts as gone. */
const failuresUntilGone = 3;
/** A device that is always late says so once in this time, with the ticks missed since. */
const lateReportSeconds = 10;

/** What a reader tells; everything is told at once, in the order in which it happens. */
interface ReaderEvents {
  /** `processes` come with the first sample after they were read. */
  sample(
    device: Device,
    reading: MemoryReading,
    processes?: Known<readonly ProcessReading[]>,
  ): void;
  processes(device: Device, processes: Known<readonly ProcessReading[]>): void;
  late(device: Device, missed: number): void;
  /** The device is gone; the reader reads no more. */
  gone(device: Device, reason: string): void;
  /** One of the above threw: a fault of ours, not of the device. */
  broken(error: unknown): void;
}

/**
 * Reads one device, never twice at a time: a tick that comes while a reading is in flight is
 * missed and counted. What comes in after the reader was stopped is left out.
 */
class DeviceReader {
  readonly device: Device;
  readonly #events: ReaderEvents;
  readonly #seconds: () => number;
  #reading: Promise<void> | undefined;
  #readingProcesses: Promise<void> | undefined;
  #processes: Known<readonly ProcessReading[]> | undefined;
  #failures = 0;
  #missed = 0;
  #lateReportedAt = Number.NEGATIVE_INFINITY;
  #stopped = false;

  constructor(device: Device, events: ReaderEvents, seconds: () => number) {
    this.device = device;
    this.#events = events;
    this.#seconds = seconds;
  }

  /** `missed` ticks passed before this one without being offered to any device. */
  tick(missed: number): void {
    if (this.#stopped) return;
    this.#missed += missed + (this.#reading ? 1 : 0);
    this.#reportLate(lateReportSeconds);
    if (this.#reading) return;
    let reading: MemoryReading | Promise<MemoryReading>;
    try {
      reading = this.device.read();
    } catch (error) {
      this.#failed(error);
      return;
    }
    if (reading instanceof Promise) this.#reading = this.#settle(reading);
    else this.#took(reading);
  }

  readProcesses(): void {
    if (this.#stopped || this.#readingProcesses) return;
    this.#readingProcesses = this.#settleProcesses();
  }

  /** Resolves when nothing is in flight. */
  async idle(): Promise<void> {
    await Promise.all([this.#reading, this.#readingProcesses]);
  }

  stop(): void {
    this.#reportLate(0);
    this.#stopped = true;
  }

  async #settle(pending: Promise<MemoryReading>): Promise<void> {
    let deliver: () => void;
    try {
      const reading = await pending;
      deliver = () => this.#took(reading);
    } catch (error) {
      deliver = () => this.#failed(error);
    }
    this.#reading = undefined;
    this.#guard(deliver);
  }

  async #settleProcesses(): Promise<void> {
    let processes: Known<readonly ProcessReading[]>;
    try {
      processes = await this.device.processes();
    } catch {
      // What cannot be read is unknown. Whether the device is still there is for read() to say.
      processes = 'unknown';
    }
    this.#readingProcesses = undefined;
    if (this.#stopped) return;
    this.#processes = processes;
    this.#guard(() => this.#events.processes(this.device, processes));
  }

  #guard(deliver: () => void): void {
    try {
      deliver();
    } catch (error) {
      this.#events.broken(error);
    }
  }

  #took(reading: MemoryReading): void {
    if (this.#stopped) return;
    this.#failures = 0;
    const processes = this.#processes;
    this.#processes = undefined;
    this.#events.sample(this.device, reading, processes);
  }

  #failed(error: unknown): void {
    if (this.#stopped) return;
    this.#failures++;
    if (!(error instanceof DeviceLost) && this.#failures < failuresUntilGone) return;
    this.stop();
    this.#events.gone(this.device, error instanceof Error ? error.message : String(error));
  }

  #reportLate(waitSeconds: number): void {
    if (this.#missed === 0 || this.#seconds() - this.#lateReportedAt < waitSeconds) return;
    this.#lateReportedAt = this.#seconds();
    const missed = this.#missed;
    this.#missed = 0;
    this.#events.late(this.device, missed);
  }
}
