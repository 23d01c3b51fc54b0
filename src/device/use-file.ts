import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isKnown, type Known } from '../units/known.js';
import type { ProcessReading } from './types.js';

/** What the processes of a device hold. */
export type DeviceUse = Known<readonly Pick<ProcessReading, 'pid' | 'usedBytes'>[]>;

/** Older than this it says nothing of now: its writer has ended, or is busy. */
const freshMs = 3000;
/** Ten thousand processes take half of it. */
const maxBytes = 1024 * 1024;
const schema = 1;

/**
 * Leaves what was read of busy devices for the supervisors of the same home, so that they need not
 * ask the driver, too. Not on a full disk: then each of them reads for itself.
 */
export function writeDeviceUse(
  home: string,
  devices: ReadonlyMap<string, DeviceUse>,
  epochMs: number,
): void {
  const kept = [...devices].map(([id, processes]) => [
    id,
    isKnown(processes) ? processes.map(({ pid, usedBytes }) => [pid, usedBytes]) : processes,
  ]);
  const document = { schema, epochMs, boot: bootId(), devices: Object.fromEntries(kept) };
  const path = useFile(home);
  try {
    writeFileSync(`${path}.new`, JSON.stringify(document), { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // Nothing depends on it.
  }
}

/** What a server of this machine read of a device just now; undefined where none did. */
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

/** A home may be shared by machines, where the same number is another process. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
