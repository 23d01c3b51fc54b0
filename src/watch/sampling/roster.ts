import type { Device, DeviceInfo } from '../../device/types.js';
import { DeviceReader, type ReaderEvents } from './device-reader.js';

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
