import { readFile } from 'node:fs/promises';
import { parseProportional } from '../../device/host/host-processes.js';
import { type Device, DeviceLost, type MemoryReading } from '../../device/types.js';
import { Failure } from '../../failure.js';
import { isKnown, type Known } from '../../units/known.js';

/** What is asked of the operating system about one process. */
export interface ProcessTable {
  isAlive(pid: number): boolean;
  /** Its share of the host's memory, always the same measure; `unknown` when it may not be seen. */
  hostBytes(pid: number): Promise<Known<number>>;
}

/**
 * One process, as devices that watching can take: its memory on each GPU that holds some of it, as
 * the driver tells, or else its memory on the host. A process that ends is a device that is lost.
 */
export async function followProcess(
  pid: number,
  devices: readonly Device[],
  table: ProcessTable = systemProcesses(),
): Promise<readonly Device[]> {
  if (!table.isAlive(pid)) {
    throw new Failure({
      kind: 'input',
      code: 'unknown-process',
      fact: `There is no process ${pid}.`,
      next: 'Run "plimsoll devices" to see the processes that hold memory.',
    });
  }
  const found: Device[] = [];
  for (const device of devices) {
    if (device.info.kind !== 'gpu') continue;
    const onGpu = () => bytesOnGpu(device, pid);
    if (typeof (await onGpu()) === 'number') found.push(view(device, pid, onGpu, table));
  }
  const host = devices.find(({ info }) => info.kind === 'host');
  if (found.length === 0 && host) found.push(view(host, pid, () => table.hostBytes(pid), table));
  if (found.length > 0) return found;
  throw new Failure({
    kind: 'input',
    code: 'process-not-on-device',
    fact: `Process ${pid} uses no memory on ${devices.map(({ info }) => info.id).join(', ')}.`,
    next: 'Leave out --devices to look at all devices.',
  });
}

/** Undefined when the driver does not list it. */
async function bytesOnGpu(device: Device, pid: number): Promise<Known<number> | undefined> {
  const processes = await device.processes();
  if (!isKnown(processes)) return 'unknown';
  return processes.find((one) => one.pid === pid)?.usedBytes;
}

function view(
  device: Device,
  pid: number,
  bytes: () => Promise<Known<number> | undefined>,
  table: ProcessTable,
): Device {
  const { info } = device;
  return {
    info: { ...info, name: `process ${pid} on ${info.name}` },
    async read(): Promise<MemoryReading> {
      const [usedBytes, whole] = await Promise.all([bytes(), device.read()]);
      if (!table.isAlive(pid)) throw new DeviceLost(info.id, `Process ${pid} has ended.`);
      const { totalBytes, freeBytes } = whole;
      // Alive and not listed: it gave back all it had there.
      return { totalBytes, usedBytes: usedBytes ?? 0, freeBytes, utilizationPercent: 'unknown' };
    },
    processes: () => Promise.resolve('unknown'),
  };
}

function systemProcesses(): ProcessTable {
  // Shared pages count by share (PSS) or in full (RSS): one of them, chosen at the first reading,
  // because a change of measure would look like growth.
  let measure: 'proportional' | 'resident' | undefined;
  return {
    isAlive,
    async hostBytes(pid) {
      if (measure !== 'resident') {
        const bytes = parseProportional(await readText(`/proc/${pid}/smaps_rollup`));
        if (bytes !== undefined) measure = 'proportional';
        if (bytes !== undefined || measure === 'proportional') return bytes ?? 'unknown';
      }
      measure = 'resident';
      return parseResident(await readText(`/proc/${pid}/status`));
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and belongs to someone else.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function parseResident(status: string): Known<number> {
  const match = /^VmRSS:\s+(\d{1,12}) kB$/m.exec(status);
  return match === null ? 'unknown' : Number(match[1]) * 1024;
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return '';
  }
}
