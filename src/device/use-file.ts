import { readFileSync, statSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isKnown, type Known } from '../units/known.js';
import type { ProcessReading } from './device.js';

/** The memory of each process on a device. */
export type DeviceUse = Known<readonly Pick<ProcessReading, 'pid' | 'usedBytes'>[]>;

/** Older than this it says nothing of now: its writer has ended, or is busy. */
const freshMs = 3000;
/** Ten thousand processes take half of it. */
const maxBytes = 1024 * 1024;
const schema = 1;

/**
 * Shares the readings of busy devices with the supervisors of the same home, so that they need not
 * ask the driver. On a full disk each supervisor reads for itself. A rename can take milliseconds:
 * it runs beside the thread that starts jobs, and only the last of the readings in that time is
 * kept.
 */
export class DeviceUseFile {
  readonly #path: string;
  #writing: Promise<void> | undefined;
  #next: string | undefined;

  constructor(home: string) {
    this.#path = useFile(home);
  }

  write(devices: ReadonlyMap<string, DeviceUse>, epochMs: number): void {
    const kept = [...devices].map(([id, processes]) => [
      id,
      isKnown(processes) ? processes.map(({ pid, usedBytes }) => [pid, usedBytes]) : processes,
    ]);
    const document = { schema, epochMs, boot: bootId(), devices: Object.fromEntries(kept) };
    this.#next = JSON.stringify(document);
    this.#writing ??= this.#writeAll();
  }

  /** Until nothing is left to be written. */
  async close(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    for (let text = this.#next; text !== undefined; text = this.#next) {
      this.#next = undefined;
      try {
        await writeFile(`${this.#path}.new`, text, { mode: 0o600 });
        await rename(`${this.#path}.new`, this.#path);
      } catch {
        // Nothing depends on it.
      }
    }
    this.#writing = undefined;
  }
}

/** Reads a server's latest reading of a device; undefined if there is none. */
export function readDeviceUse(
  home: string,
  deviceId: string,
  nowMs: number,
): Exclude<DeviceUse, 'unknown'> | undefined {
  try {
    const path = useFile(home);
    if (statSync(path).size > maxBytes) return undefined;
    const document = Object(JSON.parse(readFileSync(path, 'utf8')));
    const age = nowMs - Number(document.epochMs);
    const isOurs = document.schema === schema && document.boot === bootId();
    const rows: unknown = isOurs && age >= 0 && age < freshMs && document.devices?.[deviceId];
    return Array.isArray(rows) ? rows.flatMap(processOf) : undefined;
  } catch {
    return undefined;
  }
}

function processOf(row: unknown): Exclude<DeviceUse, 'unknown'> {
  if (!Array.isArray(row)) return [];
  const [pid, usedBytes]: unknown[] = row;
  if (typeof pid !== 'number') return [];
  return [{ pid, usedBytes: typeof usedBytes === 'number' ? usedBytes : 'unknown' }];
}

function useFile(home: string): string {
  return join(home, 'device-use.json');
}

let knownBootId: string | undefined;

/** A home may be shared by machines, where the same number is another process. */
function bootId(): string {
  try {
    knownBootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return knownBootId;
  } catch {
    return '';
  }
}
