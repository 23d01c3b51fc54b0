import {
  type Device,
  DeviceLost,
  type MemoryReading,
  type ProcessReading,
} from '../../device/types.js';
import type { Known } from '../../units/known.js';

/** A device that fails this often in a row, for any reason, counts as gone. */
const failuresUntilGone = 3;
/** A device that is always late says so once in this time, with the ticks missed since. */
const lateReportSeconds = 10;

/** What a reader tells; everything is told at once, in the order in which it happens. */
export interface ReaderEvents {
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
export class DeviceReader {
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
