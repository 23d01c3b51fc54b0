import { existsSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Known } from '../../units/known.js';
import { GpuNumbers } from '../gpu-numbers.js';
import { listKernelFolder, readKernelFile, readKernelNumber } from '../kernel-files.js';
import { machineRoots, type Roots } from '../roots.js';
import {
  type Device,
  type DeviceInfo,
  DeviceLost,
  type DeviceProvider,
  type MemoryReading,
  type ProcessReading,
} from '../types.js';
import { drmProcesses } from './drm-clients.js';

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
