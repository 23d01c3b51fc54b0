import { join } from 'node:path';
import { listPids, readKernelBytes, readKernelFile } from '../../device/kernel-files.js';

/** One process as /proc shows it. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** `Z` has ended and waits for its parent; `T` is stopped. */
  readonly state: string;
  /** When it started, in ticks: tells a process from a later one that got the same pid. */
  readonly started: number;
  /** Processor time that it has used, in ticks. */
  readonly cpuTicks: number;
}

/** Those that are read; the kernel writes 50. */
const statFields = 20;

/** The name stands in brackets and may hold anything; what follows its last bracket is fixed. */
export function parseStat(text: string): ProcessEntry | undefined {
  const pid = Number.parseInt(text, 10);
  const rest = text.slice(text.lastIndexOf(')') + 2).split(' ', statFields);
  const [state = '', parent] = rest;
  const started = Number(rest[19]);
  if (!Number.isInteger(pid) || !Number.isInteger(Number(parent)) || Number.isNaN(started)) {
    return undefined;
  }
  const cpuTicks = (Number(rest[11]) || 0) + (Number(rest[12]) || 0);
  return { pid, parent: Number(parent), state, started, cpuTicks };
}

/** A process, or undefined when there is none of that pid. */
export function readProcess(procRoot: string, pid: number): ProcessEntry | undefined {
  return parseStat(readKernelFile(`${procRoot}/${pid}/stat`) ?? '');
}

/** The kernel tells times of processes in hundredths of a second, whatever its own tick is. */
export const ticksPerSecond = 100;

/** How long a process has been there, by the machine's uptime; undefined where there is none. */
export function ageSeconds(procRoot: string, pid: number): number | undefined {
  const up = Number.parseFloat(readKernelFile(join(procRoot, 'uptime')) ?? '');
  const started = readProcess(procRoot, pid)?.started;
  const age = started === undefined ? Number.NaN : up - started / ticksPerSecond;
  return age >= 0 ? age : undefined;
}

export function readProcesses(procRoot: string): readonly ProcessEntry[] {
  return listPids(procRoot).flatMap((pid) => readProcess(procRoot, pid) ?? []);
}

/** All below some processes, those themselves included where they are in the table. */
export function descendants(
  table: readonly ProcessEntry[],
  roots: ReadonlySet<number>,
): ReadonlySet<number> {
  const children = new Map<number, ProcessEntry[]>();
  for (const entry of table) {
    const siblings = children.get(entry.parent);
    if (siblings === undefined) children.set(entry.parent, [entry]);
    else siblings.push(entry);
  }
  const found = new Set(table.filter(({ pid }) => roots.has(pid)).map(({ pid }) => pid));
  const queue = [...roots];
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    for (const child of children.get(pid) ?? []) {
      if (found.has(child.pid)) continue;
      found.add(child.pid);
      queue.push(child.pid);
    }
  }
  return found;
}

/** The most that the kernel gives to arguments and environment together. */
export const environmentLimitBytes = 6 * 1024 * 1024;

/** Whether a process was started with a variable; false where we may not see that. */
export function hasVariable(procRoot: string, pid: number, variable: string): boolean {
  const bytes = readKernelBytes(join(procRoot, String(pid), 'environ'), environmentLimitBytes);
  if (bytes === undefined) return false;
  const at = bytes.indexOf(`${variable}\0`);
  return at === 0 || (at > 0 && bytes[at - 1] === 0);
}

/** The memory of one process. */
export interface Resident {
  /** The most it ever held, pages of files included. */
  readonly peakBytes: number;
  /** The most it ever held of its own, about: what it maps of files now is taken off. */
  readonly peakOwnBytes: number;
  readonly nowBytes: number;
  /** The most address space it ever had; 0 where the kernel does not tell. */
  readonly peakMappedBytes: number;
}

export function readResident(procRoot: string, pid: number): Resident | undefined {
  const status = readKernelFile(join(procRoot, String(pid), 'status')) ?? '';
  const bytes = (name: string) =>
    Number(new RegExp(String.raw`^${name}:\s+(\d{1,12}) kB$`, 'm').exec(status)?.[1]) * 1024;
  const [peakBytes, nowBytes, fileBytes] = [bytes('VmHWM'), bytes('VmRSS'), bytes('RssFile')];
  if (Number.isNaN(peakBytes) || Number.isNaN(nowBytes)) return undefined;
  // Kernels before 4.5 do not tell files apart.
  const peakOwnBytes = Math.max(0, peakBytes - (Number.isNaN(fileBytes) ? 0 : fileBytes));
  return { peakBytes, peakOwnBytes, nowBytes, peakMappedBytes: bytes('VmPeak') || 0 };
}
