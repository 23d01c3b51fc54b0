import { release } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../time/clock.js';
import type { Known } from '../../units/known.js';
import { readKernelFile } from '../kernel-files.js';
import type { Device, DeviceInfo, HostReading, MemoryReading, ProcessReading } from '../types.js';
import { type CgroupLimit, findCgroup, tightestLimit, usedUnderLimit } from './cgroup-memory.js';
import { type CpuTime, cpuPercent, parseCpuTime } from './cpu-time.js';
import { hostInfo } from './host-info.js';
import { processFiles } from './host-processes.js';
import { type MachineMemory, parseMeminfo } from './meminfo.js';
import { readPageSize } from './page-size.js';
import { type Pressure, parsePressure } from './pressure.js';
import { ProcessList } from './process-list.js';

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
