import { existsSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Known } from '../../units/known.js';
import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type DeviceProvider,
  type MemoryReading,
  type ProcessReading,
} from '../device.js';
import {
  listKernelFolder,
  listPids,
  machineRoots,
  type Roots,
  readKernelFile,
  readKernelNumber,
} from '../kernel-files.js';
import { processName, sortProcesses } from '../process-names.js';
import { GpuNumbers } from '../select-devices.js';

export interface AmdgpuOptions {
  readonly roots?: Roots;
  readonly numbers?: GpuNumbers;
}

const amdVendor = '0x1002';

/**
 * AMD GPUs from what the kernel's amdgpu driver shows in /sys and /proc.
 *
 * @example
 * const { devices } = await amdgpuProvider().list();
 */
export function amdgpuProvider(options: AmdgpuOptions = {}): DeviceProvider {
  const roots = options.roots ?? machineRoots;
  const numbers = options.numbers ?? new GpuNumbers();
  const known = new Map<string, AmdgpuDevice>();

  return {
    source: 'amdgpu',
    list() {
      const notes: string[] = [];
      const devices: Device[] = [];
      for (const card of amdCards(roots)) {
        if (!existsSync(join(card.folder, 'mem_info_vram_total'))) {
          notes.push(
            `An AMD card at ${card.pciAddress} shows no memory: amdgpu does not drive it.`,
          );
          continue;
        }
        const uuid = uuidOf(card.folder);
        const key = `${card.pciAddress} ${uuid}`;
        let device = known.get(key);
        if (device?.folder !== card.folder) {
          const number = numbers.numberOf(`amd ${key}`);
          device = new AmdgpuDevice(infoOf(card, number, uuid, roots), card, roots.proc);
          known.set(key, device);
        }
        devices.push(device);
      }
      return Promise.resolve({ devices, notes });
    },
    fingerprint() {
      const cards = amdCards(roots).map(({ folder, pciAddress }) => {
        const driven = existsSync(join(folder, 'mem_info_vram_total'));
        return `${folder} ${pciAddress} ${driven ? uuidOf(folder) : 'not driven'}`;
      });
      return Promise.resolve(cards.join('\n'));
    },
    close() {},
  };
}

interface Card {
  /** /sys/class/drm/cardN/device */
  readonly folder: string;
  readonly pciAddress: string;
}

class AmdgpuDevice implements Device {
  readonly info: DeviceInfo;
  readonly folder: string;
  readonly #pciAddress: string;
  readonly #procRoot: string;

  constructor(info: DeviceInfo, card: Card, procRoot: string) {
    this.info = info;
    this.folder = card.folder;
    this.#pciAddress = card.pciAddress;
    this.#procRoot = procRoot;
  }

  read(): MemoryReading {
    const total = readKernelNumber(join(this.folder, 'mem_info_vram_total'));
    const used = readKernelNumber(join(this.folder, 'mem_info_vram_used'));
    if (total === undefined && !existsSync(join(this.folder, 'mem_info_vram_total'))) {
      throw new DeviceLost(this.info.id, 'the kernel no longer shows it in /sys');
    }
    const busy = readKernelNumber(join(this.folder, 'gpu_busy_percent'));
    const canSubtract = total !== undefined && used !== undefined && used <= total;
    return {
      totalBytes: total ?? 'unknown',
      usedBytes: used ?? 'unknown',
      freeBytes: canSubtract ? total - used : 'unknown',
      utilizationPercent: busy !== undefined && busy <= 100 ? busy : 'unknown',
    };
  }

  processes(): Promise<Known<readonly ProcessReading[]>> {
    // Other users' processes stay hidden from a user who is not root: the list is then partial.
    return Promise.resolve(drmProcesses(this.#procRoot, this.#pciAddress));
  }
}

/** By the card's number, so that card10 comes after card9. */
function amdCards(roots: Roots): readonly Card[] {
  const folder = join(roots.sys, 'class/drm');
  return listKernelFolder(folder)
    .filter((name) => /^card\d+$/.test(name))
    .toSorted((a, b) => Number(a.slice(4)) - Number(b.slice(4)))
    .map((name) => join(folder, name, 'device'))
    .filter((device) => readKernelFile(join(device, 'vendor'))?.trim() === amdVendor)
    .map((device) => ({ folder: device, pciAddress: pciAddressOf(device) }));
}

/** From uevent; else the folder that `device` links to carries the address as its name. */
function pciAddressOf(folder: string): string {
  const uevent = readKernelFile(join(folder, 'uevent')) ?? '';
  const slot = /^PCI_SLOT_NAME=(\S+)$/m.exec(uevent)?.[1];
  return (slot ?? basename(realpathSync(folder))).toLowerCase();
}

function infoOf(card: Card, number: number, uuid: Known<string>, roots: Roots): DeviceInfo {
  // Only AMD's own packages of the driver carry a version; the kernel's copy has none.
  const driver = readKernelFile(join(roots.sys, 'module/amdgpu/version'))?.trim();
  return {
    id: `gpu:${number}`,
    kind: 'gpu',
    name: nameOf(card.folder),
    source: 'amdgpu',
    provenance: 'measured',
    uuid,
    driver: driver === undefined || driver === '' ? 'unknown' : driver,
  };
}

function nameOf(folder: string): string {
  const name = readKernelFile(join(folder, 'product_name'))?.trim() ?? '';
  if (name !== '') return name;
  const model = readKernelFile(join(folder, 'device'))?.trim().replace(/^0x/, '') ?? '';
  return model === '' ? 'AMD GPU' : `AMD GPU 1002:${model}`;
}

function uuidOf(folder: string): Known<string> {
  const id = readKernelFile(join(folder, 'unique_id'))?.trim() ?? '';
  return id === '' ? 'unknown' : id;
}

/**
 * Processes with memory on the GPU at `pciAddress`. An open file that was inherited or passed on
 * shows in several processes with one client id: it counts once, for the oldest of them.
 */
function drmProcesses(procRoot: string, pciAddress: string): Known<readonly ProcessReading[]> {
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

/** The memory facts of one open file of a GPU. */
interface DrmClient {
  /** The same for all copies of one open file, in whichever process. */
  readonly clientId: string;
  readonly pciAddress: string;
  readonly vramBytes: number;
}

const units: Readonly<Record<string, number>> = { '': 1, KiB: 1024, MiB: 1024 ** 2 };

/**
 * Reads /proc/PID/fdinfo/N of a GPU file. Undefined when it is not amdgpu's, or tells no memory
 * (kernels before 5.14 do not).
 *
 * @example
 * parseDrmClient(
 *   'drm-driver:\tamdgpu\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t64 KiB\n',
 * ); // { clientId: '3', pciAddress: '0000:03:00.0', vramBytes: 65536 }
 */
export function parseDrmClient(text: string): DrmClient | undefined {
  const values = new Map<string, string>();
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) values.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  const clientId = values.get('drm-client-id');
  const pciAddress = values.get('drm-pdev')?.toLowerCase();
  // The newer key counts what is shared too; the older one is what the process is charged for.
  const vramBytes = parseSize(values.get('drm-memory-vram') ?? values.get('drm-total-vram'));
  if (values.get('drm-driver') !== 'amdgpu') return undefined;
  if (clientId === undefined || pciAddress === undefined || vramBytes === undefined)
    return undefined;
  return { clientId, pciAddress, vramBytes };
}

function parseSize(text: string | undefined): number | undefined {
  const match = /^(\d{1,15})(?: (KiB|MiB))?$/.exec(text ?? '');
  const bytes = match === null ? Number.NaN : Number(match[1]) * (units[match[2] ?? ''] ?? 1);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
