import { fileURLToPath } from 'node:url';
import { readSnapshot } from './read-snapshot.js';
import type { Snapshot } from './snapshot.js';

/** What the recorded processes said of themselves, in bytes. */
export const recordedTruth = {
  steady: {
    allocatedBytes: 1580356096,
    reservedBytes: 9378463744,
    peakAllocatedBytes: 8690289664,
    inactiveSplitBytes: 841854464,
    outOfMemory: 0,
  },
  leak: {
    allocatedBytes: 1955568128,
    reservedBytes: 7329546240,
    peakAllocatedBytes: 6686770176,
    inactiveSplitBytes: 894461440,
    outOfMemory: 0,
  },
  oom: {
    allocatedBytes: 533227520,
    reservedBytes: 4280287232,
    peakAllocatedBytes: 4224743424,
    inactiveSplitBytes: 56072192,
    outOfMemory: 1,
  },
} as const;

/** `first-forward` died before it could say anything of itself. */
export type RecordedName = keyof typeof recordedTruth | 'first-forward';
export const recordedNames = ['steady', 'leak', 'oom'] as const;

export function recordedPath(name: RecordedName): string {
  const url = new URL(`../../bench/truth/snapshots/${name}.pickle.xz`, import.meta.url);
  return fileURLToPath(url);
}

const read = new Map<RecordedName, Promise<Snapshot>>();

/** A snapshot of a real job; read once for all tests of a file. */
export async function recorded(name: RecordedName): Promise<Snapshot> {
  const known = read.get(name) ?? readSnapshot(recordedPath(name));
  read.set(name, known);
  return known;
}
