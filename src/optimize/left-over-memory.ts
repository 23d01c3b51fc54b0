import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { formatBytes, MiB } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import { type Advice, bytesSaved } from './advice.js';

/** Shared memory of a process that is gone. */
export interface LeftOver {
  readonly pid: number;
  readonly files: number;
  readonly bytes: number;
}

/** A loader makes some thousand files at most; beyond that a summary is enough. */
const maxFiles = 100_000;
const leastBytes = MiB;

/**
 * Tensors that DataLoader workers shared through files and never removed: PyTorch names such a file after
 * the process that made it (`torch_PID_...`). Only the files of this user whose process is gone.
 */
export function leftOverMemory(folder: string, procRoot: string): readonly LeftOver[] {
  const found = new Map<number, LeftOver>();
  for (const name of namesIn(folder)) {
    const pid = Number(/^torch_(\d{1,10})_/.exec(name)?.[1]);
    if (!Number.isSafeInteger(pid) || pid <= 0 || existsSync(join(procRoot, String(pid)))) continue;
    const bytes = ownBytes(join(folder, name));
    if (bytes === undefined) continue;
    const before = found.get(pid) ?? { pid, files: 0, bytes: 0 };
    found.set(pid, { pid, files: before.files + 1, bytes: before.bytes + bytes });
  }
  return [...found.values()].filter(({ bytes }) => bytes >= leastBytes);
}

export function leftOverAdvice(
  found: readonly LeftOver[],
  hostBytes: Known<number>,
  folder: string,
): readonly Advice[] {
  const host = { id: 'host', totalBytes: hostBytes, provenance: 'measured' } as const;
  return found.map(({ pid, files, bytes }) => ({
    code: 'left-over-shared-memory',
    fact: `Process ${pid} is gone and left ${formatBytes(bytes)} of shared memory (${files === 1 ? '1 file' : `${files} files`}).`,
    steps: [`rm ${join(folder, `torch_${pid}_`)}*`],
    saves: bytesSaved(bytes, host),
  }));
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).slice(0, maxFiles);
  } catch {
    // There is none on this system.
    return [];
  }
}

/** What the file takes; undefined where it is not ours, or is gone by now. */
function ownBytes(path: string): number | undefined {
  try {
    const stats = lstatSync(path);
    const me = process.getuid?.();
    if (!stats.isFile() || (me !== 0 && stats.uid !== me)) return undefined;
    return stats.blocks * 512;
  } catch {
    return undefined;
  }
}
