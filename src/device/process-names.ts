import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { isKnown, type Known } from '../units/known.js';
import type { ProcessReading } from './device.js';
import { listPids, readKernelFile } from './kernel-files.js';

/** Some programs write a whole status into their name. */
const longestName = 64;

/** The longest command line we look at; only its first word is used. */
const commandLimitBytes = 4096;

/** The program a process runs, as people know it: the last part of its first word. */
export function processName(procRoot: string, pid: number): Known<string> {
  const folder = `${procRoot}/${pid}`;
  const command = readKernelFile(`${folder}/cmdline`, commandLimitBytes);
  const program = command === undefined ? '' : basename((command.split('\0')[0] ?? '').trim());
  if (program !== '') return presentableName(program);
  // Kernel threads and zombies have no command line, but a short name.
  const short = readKernelFile(`${folder}/comm`)?.trim() ?? '';
  return short === '' ? 'unknown' : presentableName(short);
}

/**
 * A name is read again after so long: its process may have become another program. An exporter lists
 * processes every 15 s, and reading each name every time would be a tenth of what it costs.
 */
const nameHoldsSeconds = 60;

/** The names of processes that are asked for again and again, each read once in a while. */
export class ProcessNames {
  readonly #procRoot: string;
  readonly #seconds: () => number;
  #known = new Map<number, Known<string>>();
  #nextTurn = 0;

  constructor(procRoot: string, seconds = () => performance.now() / 1000) {
    this.#procRoot = procRoot;
    this.#seconds = seconds;
  }

  /** Whether a process of this id was here when its name was read. */
  has(pid: number): boolean {
    this.#turn();
    return isKnown(this.#known.get(pid) ?? 'unknown');
  }

  nameOf(pid: number): Known<string> {
    this.#turn();
    const known = this.#known.get(pid) ?? processName(this.#procRoot, pid);
    this.#known.set(pid, known);
    return known;
  }

  #turn(): void {
    const now = this.#seconds();
    if (now < this.#nextTurn) return;
    this.#known = new Map();
    this.#nextTurn = now + nameHoldsSeconds;
  }
}

/** A process names itself: what could steer a terminal, or fill it, does not get through. */
export function presentableName(name: string): string {
  return name.replace(/\p{C}/gu, '?').slice(0, longestName);
}

/**
 * The process ids in the `NSpid` line of /proc/PID/status: outermost namespace first.
 *
 * @example
 * parseNamespacePids('Name:\tpython\nNSpid:\t4321\t7\n'); // [4321, 7]
 */
export function parseNamespacePids(status: string): readonly number[] {
  const line = /^NSpid:((?:[ \t]+\d+)+)[ \t]*$/m.exec(status)?.[1];
  return line === undefined ? [] : line.trim().split(/\s+/).map(Number);
}

/**
 * Turns a process id that a driver reported into the one that holds here. Drivers may speak of
 * the host's ids while we sit in a container. The NSpid lines tell, where /proc shows the outer id
 * too; an id that fits no process, or fits two, stays as it is.
 */
export function visiblePids(
  procRoot: string,
  reported: readonly number[],
  isRunning = (pid: number) => existsSync(`${procRoot}/${pid}`),
): Map<number, number> {
  const result = new Map<number, number>();
  const lost = new Set<number>();
  for (const pid of reported) {
    if (isRunning(pid)) result.set(pid, pid);
    else lost.add(pid);
  }
  if (lost.size === 0) return result;
  const twice = new Set<number>();
  for (const pid of listPids(procRoot)) {
    const status = readKernelFile(`${procRoot}/${pid}/status`);
    if (status === undefined) continue;
    for (const other of parseNamespacePids(status)) {
      if (!lost.has(other) || other === pid) continue;
      if (result.has(other)) twice.add(other);
      result.set(other, pid);
    }
  }
  for (const pid of twice) result.delete(pid);
  return result;
}

/** Largest first, those of unknown size last, ties by process id. */
export function sortProcesses(processes: Iterable<ProcessReading>): readonly ProcessReading[] {
  return [...processes].toSorted((a, b) => size(b) - size(a) || a.pid - b.pid);
}

function size(process: ProcessReading): number {
  return process.usedBytes === 'unknown' ? -1 : process.usedBytes;
}
