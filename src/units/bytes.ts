import { Failure } from '../failure.js';
import { checkArguments, number, string } from './arguments.js';
import type { Known } from './known.js';

export const KiB = 1024;
export const MiB = 1024 ** 2;
export const GiB = 1024 ** 3;
const TiB = 1024 ** 4;

/** A bare letter means the binary unit, as in nvidia-smi, ulimit and Slurm. */
const factors: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: KiB,
  kib: KiB,
  kb: 1e3,
  m: MiB,
  mib: MiB,
  mb: 1e6,
  g: GiB,
  gib: GiB,
  gb: 1e9,
  t: TiB,
  tib: TiB,
  tb: 1e12,
};

/**
 * Reads a size as people write it: `24GiB`, `24GB`, `24g`, `1.5 GiB`, or bytes.
 *
 * @example
 * parseBytes('24GiB'); // 25769803776
 */
export function parseBytes(text: string): number {
  checkArguments('parseBytes', { text }, { text: string });
  const match = /^\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*)\s*$/i.exec(text);
  const factor = factors[(match?.[2] ?? '?').toLowerCase()];
  const bytes = match && factor !== undefined ? Math.round(Number(match[1]) * factor) : Number.NaN;
  if (!Number.isSafeInteger(bytes)) {
    throw new Failure({
      kind: 'input',
      code: 'bad-size',
      fact: `"${text}" is not a size.`,
      next: 'Write it like 24GiB, 24GB, 24g or 25769803776.',
    });
  }
  return bytes;
}

/**
 * Bytes for people: GiB with one decimal, TiB from 1,024 GiB on, smaller units below one GiB. Two digits or more always
 * count, so that a rate or a leak is not rounded away.
 *
 * @example
 * formatBytes(640 * 1024 ** 2); // '640 MiB'
 */
export function formatBytes(bytes: Known<number>): string {
  if (bytes === 'unknown') return 'unknown';
  checkArguments('formatBytes', { bytes }, { bytes: number });
  // What would be written as 1024 of a unit is one of the next.
  const reaches = (unit: number): boolean => Math.abs(bytes) * 1024 >= unit * 1023.5;
  if (reaches(TiB)) return `${(bytes / TiB).toFixed(1)} TiB`;
  if (reaches(GiB)) return `${(bytes / GiB).toFixed(1)} GiB`;
  if (reaches(MiB)) return `${shortNumber(bytes / MiB)} MiB`;
  if (reaches(KiB)) return `${shortNumber(bytes / KiB)} KiB`;
  return `${bytes} B`;
}

function shortNumber(value: number): string {
  return value.toFixed(Math.abs(value) < 99.95 ? 1 : 0);
}
