import { readFile } from 'node:fs/promises';
import { arch, endianness, release } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.js';
import type { Known } from '../../units/known.js';
import type { Device, DeviceInfo, HostReading, MemoryReading, ProcessReading } from '../device.js';
import { listPids, readKernelBytes, readKernelFile } from '../kernel-files.js';
import { processName } from '../process-names.js';
import { type CgroupLimit, findCgroup, tightestLimit, usedUnderLimit } from './cgroup-memory.js';
import { type ProcessFiles, ProcessList } from './process-list.js';

/** A limit seldom changes, and finding it reads a file for each level of the cgroup tree. */
const limitAgeSeconds = 5;

/** It is an average of 10 s, which the kernel renews every 2 s. */
const pressureAgeSeconds = 1;

/** /proc/stat costs more the more processors there are, and a shorter span tells little. */
const cpuSpanSeconds = 0.5;

/** Only its first line is wanted. */
const statLimitBytes = 512;

/** The RAM this process may use: the machine's, or its cgroup's where that is less. */
export class LinuxHost implements Device {
  readonly info: DeviceInfo = hostInfo(`Linux ${release()}`);
  readonly #procRoot: string;
  readonly #clock: Clock;
  readonly #processes: ProcessList;
  #limit: CgroupLimit | undefined;
  #limitAt = Number.NEGATIVE_INFINITY;
  #pressure: { path: string; at: number; pressure: Pressure } | undefined;
  #cpu: CpuTime | undefined;
  #cpuAt = Number.NEGATIVE_INFINITY;
  #cpuPercent: Known<number> = 'unknown';

  constructor(procRoot: string, clock: Clock) {
    this.#procRoot = procRoot;
    this.#clock = clock;
    this.#processes = new ProcessList(processFiles(procRoot, readPageSize(procRoot)), clock);
  }

  read(): MemoryReading {
    const now = this.#clock.seconds();
    const machine = parseMeminfo(readKernelFile(join(this.#procRoot, 'meminfo')) ?? '');
    const limit = this.#currentLimit(now);
    const binding = limitBelowRam(limit, machine);
    return {
      ...(binding === undefined ? machineReading(machine) : cgroupReading(binding, machine)),
      utilizationPercent: this.#utilization(now),
      host: this.#hostReading(now, machine, binding),
    };
  }

  processes(): Promise<Known<readonly ProcessReading[]>> {
    return this.#processes.read();
  }

  #hostReading(now: number, machine: MachineMemory, binding: CgroupLimit | undefined): HostReading {
    const { swapTotalBytes, swapFreeBytes } = machine;
    const isSwapKnown = swapTotalBytes !== 'unknown' && swapFreeBytes !== 'unknown';
    const pressure = this.#currentPressure(now, binding);
    return {
      swapTotalBytes,
      swapUsedBytes: isSwapKnown ? Math.max(0, swapTotalBytes - swapFreeBytes) : 'unknown',
      limitBytes: binding?.limitBytes ?? 'none',
      limitedBy: binding === undefined ? 'ram' : `cgroup-v${binding.version}`,
      pressureSomePercent: pressure.somePercent,
      pressureFullPercent: pressure.fullPercent,
    };
  }

  #currentPressure(now: number, binding: CgroupLimit | undefined): Pressure {
    const path =
      binding?.version === 2
        ? join(binding.folder, 'memory.pressure')
        : join(this.#procRoot, 'pressure/memory');
    const known = this.#pressure;
    if (known?.path === path && now - known.at < pressureAgeSeconds) return known.pressure;
    const pressure = parsePressure(readKernelFile(path) ?? '');
    this.#pressure = { path, at: now, pressure };
    return pressure;
  }

  #currentLimit(now: number): CgroupLimit | undefined {
    if (now - this.#limitAt >= limitAgeSeconds) {
      const place = findCgroup(this.#procRoot);
      this.#limit = place === undefined ? undefined : tightestLimit(place);
      this.#limitAt = now;
    }
    return this.#limit;
  }

  #utilization(now: number): Known<number> {
    if (now - this.#cpuAt >= cpuSpanSeconds) {
      const time = parseCpuTime(readKernelFile(join(this.#procRoot, 'stat'), statLimitBytes) ?? '');
      this.#cpuPercent = cpuPercent(this.#cpu, time);
      this.#cpu = time;
      this.#cpuAt = now;
    }
    return this.#cpuPercent;
  }
}

type MemoryFigures = Pick<MemoryReading, 'totalBytes' | 'usedBytes' | 'freeBytes'>;

function limitBelowRam(
  limit: CgroupLimit | undefined,
  { totalBytes }: MachineMemory,
): CgroupLimit | undefined {
  if (limit === undefined) return undefined;
  return totalBytes === 'unknown' || limit.limitBytes < totalBytes ? limit : undefined;
}

function machineReading({ totalBytes, availableBytes }: MachineMemory): MemoryFigures {
  const isKnown = totalBytes !== 'unknown' && availableBytes !== 'unknown';
  if (!isKnown) return { totalBytes, usedBytes: 'unknown', freeBytes: 'unknown' };
  const freeBytes = Math.min(availableBytes, totalBytes);
  return { totalBytes, usedBytes: totalBytes - freeBytes, freeBytes };
}

function cgroupReading(limit: CgroupLimit, { availableBytes }: MachineMemory): MemoryFigures {
  const totalBytes = limit.limitBytes;
  const usage = usedUnderLimit(limit);
  if (usage === 'unknown') return { totalBytes, usedBytes: 'unknown', freeBytes: 'unknown' };
  const usedBytes = Math.min(usage, totalBytes);
  const left = totalBytes - usedBytes;
  // The machine itself may have less to give than the limit would allow.
  const freeBytes = availableBytes === 'unknown' ? left : Math.min(left, availableBytes);
  return { totalBytes, usedBytes, freeBytes };
}

interface Pressure {
  readonly somePercent: Known<number>;
  readonly fullPercent: Known<number>;
}

/**
 * Reads a pressure stall file, /proc/pressure/memory or a cgroup's memory.pressure: the share of
 * the last 10 s in which some, or all, tasks waited for memory.
 *
 * @example
 * parsePressure('some avg10=1.50 avg60=0.20 avg300=0.00 total=12\n').somePercent; // 1.5
 */
export function parsePressure(text: string): Pressure {
  return { somePercent: average(text, 'some'), fullPercent: average(text, 'full') };
}

function average(text: string, who: 'some' | 'full'): Known<number> {
  const match = new RegExp(`^${who} avg10=(\\d{1,3}(?:\\.\\d+)?) `, 'm').exec(text);
  const percent = match === null ? Number.NaN : Number(match[1]);
  return percent <= 100 ? percent : 'unknown';
}

/** Time all processors together spent since the start, in ticks. */
interface CpuTime {
  readonly busy: number;
  readonly total: number;
}

/** Reads the first line of /proc/stat. */
export function parseCpuTime(text: string): CpuTime | undefined {
  const line = /^cpu +(\d+(?: \d+)+)/.exec(text)?.[1];
  if (line === undefined) return undefined;
  // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user already.
  const ticks = line.split(' ').slice(0, 8).map(Number);
  const total = ticks.reduce((sum, value) => sum + value, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { busy: total - idle, total };
}

/** How busy the processors were between two readings, 0 to 100. */
export function cpuPercent(before: CpuTime | undefined, after: CpuTime | undefined): Known<number> {
  if (before === undefined || after === undefined) return 'unknown';
  const total = after.total - before.total;
  const busy = after.busy - before.busy;
  // Ticks may step back a little when a processor goes offline.
  if (total <= 0 || busy < 0) return 'unknown';
  return Math.round((Math.min(busy, total) / total) * 1000) / 10;
}

/** Reads processes from /proc; each may end at any time. */
function processFiles(procRoot: string, pageSize: number): ProcessFiles {
  return {
    listPids: () => listPids(procRoot),
    // Threads of the kernel hold none, and a process that has just ended tells nothing.
    residentBytes: (pid) =>
      pageSize * parseResidentPages(readKernelFile(`${procRoot}/${pid}/statm`) ?? ''),
    proportionalBytes: (pid) => readProportional(procRoot, pid),
    name: (pid) => processName(procRoot, pid),
  };
}

/** The second figure of /proc/PID/statm; 0 where it cannot be read. */
export function parseResidentPages(statm: string): number {
  const match = /^\d+ (\d{1,12}) /.exec(statm);
  return match === null ? 0 : Number(match[1]);
}

/** The line `Pss:` of /proc/PID/smaps_rollup. */
export function parseProportional(rollup: string): number | undefined {
  const match = /^Pss:\s+(\d{1,12}) kB$/m.exec(rollup);
  return match === null ? undefined : Number(match[1]) * 1024;
}

/** Through the thread pool: the walk over the pages must not hold up everything else. */
async function readProportional(procRoot: string, pid: number): Promise<number | undefined> {
  try {
    return parseProportional(await readFile(`${procRoot}/${pid}/smaps_rollup`, 'utf8'));
  } catch {
    // Other users' processes do not show it, nor do kernels before 4.14.
    return undefined;
  }
}

const pageSizeKey = 6n;

/** Bytes of a memory page: 4096 on x64, up to 65536 on arm64; the kernel tells each process. */
function readPageSize(procRoot: string): number {
  const bytes = readKernelBytes(join(procRoot, 'self/auxv'));
  return (bytes === undefined ? undefined : parsePageSize(bytes)) ?? 4096;
}

/** Reads the auxiliary vector: pairs of 64-bit key and value, ended by key 0. */
export function parsePageSize(auxv: Buffer): number | undefined {
  const little = endianness() === 'LE';
  const word = (at: number): bigint =>
    little ? auxv.readBigUInt64LE(at) : auxv.readBigUInt64BE(at);
  for (let at = 0; at + 16 <= auxv.length; at += 16) {
    const key = word(at);
    if (key === 0n) return undefined;
    if (key !== pageSizeKey) continue;
    const size = Number(word(at + 8));
    const isPowerOfTwo = size >= 4096 && size <= 2 ** 24 && Math.log2(size) % 1 === 0;
    return isPowerOfTwo ? size : undefined;
  }
  return undefined;
}

/** RAM and swap of the whole machine. */
interface MachineMemory {
  readonly totalBytes: Known<number>;
  /** Bytes that programs can still get without swapping: free memory and reclaimable page cache. */
  readonly availableBytes: Known<number>;
  readonly swapTotalBytes: Known<number>;
  readonly swapFreeBytes: Known<number>;
}

/**
 * Reads /proc/meminfo.
 *
 * @example
 * parseMeminfo('MemTotal: 1024 kB\nMemAvailable: 512 kB\n').availableBytes; // 524288
 */
export function parseMeminfo(text: string): MachineMemory {
  return {
    totalBytes: bytesOfLine(text, lines.total),
    // Kernels before 3.14 have no MemAvailable; MemFree alone would call every cache "used".
    availableBytes: bytesOfLine(text, lines.available),
    swapTotalBytes: bytesOfLine(text, lines.swapTotal),
    swapFreeBytes: bytesOfLine(text, lines.swapFree),
  };
}

/** Only the lines that are wanted, since this is read ten times a second. */
const lines = {
  total: /^MemTotal:\s+(\d{1,13}) kB$/m,
  available: /^MemAvailable:\s+(\d{1,13}) kB$/m,
  swapTotal: /^SwapTotal:\s+(\d{1,13}) kB$/m,
  swapFree: /^SwapFree:\s+(\d{1,13}) kB$/m,
} as const;

function bytesOfLine(text: string, line: RegExp): Known<number> {
  const match = line.exec(text);
  // The kernel's "kB" has always been 1024 bytes.
  return match === null ? 'unknown' : Number(match[1]) * 1024;
}

/** Returns the name and facts of the host. */
export function hostInfo(driver: string): DeviceInfo {
  return {
    id: 'host',
    kind: 'host',
    name: `RAM (${arch()})`,
    source: 'host',
    provenance: 'measured',
    uuid: 'unknown',
    driver,
  };
}
