import { readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Known } from '../../units/known.js';
import { listKernelFolder, listPids, readKernelFile } from '../kernel-files.js';
import { processName } from '../process-names.js';
import { sortProcesses } from '../sort-processes.js';
import type { ProcessReading } from '../types.js';
import { parseDrmClient } from './fdinfo.js';

/**
 * Processes with memory on the GPU at `pciAddress`. An open file that was inherited or passed on
 * shows in several processes with one client id: it counts once, for the oldest of them.
 */
export function drmProcesses(
  procRoot: string,
  pciAddress: string,
): Known<readonly ProcessReading[]> {
  const pids = listPids(procRoot).toSorted((a, b) => a - b);
  // We are a process ourselves: none at all means that /proc cannot be read.
  if (pids.length === 0) return 'unknown';
  const seen = new Set<string>();
  const processes: ProcessReading[] = [];
  for (const pid of pids) {
    let usedBytes = 0;
    let found = false;
    for (const text of drmFiles(procRoot, pid)) {
      const client = parseDrmClient(text);
      if (client?.pciAddress !== pciAddress || seen.has(client.clientId)) continue;
      seen.add(client.clientId);
      usedBytes += client.vramBytes;
      found = true;
    }
    if (found) processes.push({ pid, name: processName(procRoot, pid), usedBytes });
  }
  return sortProcesses(processes);
}

/** Only files under /dev/dri are opened: asking all open files of all processes costs seconds. */
function* drmFiles(procRoot: string, pid: number): Generator<string> {
  const folder = join(procRoot, String(pid));
  for (const fd of listKernelFolder(join(folder, 'fd'))) {
    let target: string;
    try {
      target = readlinkSync(join(folder, 'fd', fd));
    } catch {
      continue;
    }
    if (!target.startsWith('/dev/dri/')) continue;
    const text = readKernelFile(join(folder, 'fdinfo', fd));
    if (text !== undefined) yield text;
  }
}
