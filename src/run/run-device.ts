import { type Device, DeviceLost } from '../device/device.js';
import type { Discovery } from '../device/discover.js';
import { selectDevices, visibleGpus } from '../device/select-devices.js';
import { type DeviceUse, readDeviceUse } from '../device/use-file.js';
import { systemClock } from '../time/clock.js';
import { isKnown } from '../units/known.js';
import { type ProcessBytes, sumBytes } from './processes/memory-holders.js';

/** The bytes of a run's processes on its device. */
export interface HeldOnDevice {
  readonly processes: readonly ProcessBytes[];
  /** Bytes of all other processes on it. */
  readonly othersBytes: number;
}

/** The device that a run is on, and what can be asked about it. */
export interface RunDevice {
  readonly id: string;
  /** Its name, by its driver. */
  readonly name: string;
  /** It stands for a GPU that is not there. */
  readonly isSimulated: boolean;
  /** CUDA_VISIBLE_DEVICES leaves the program no other. */
  readonly isOnlyVisible: boolean;
  /** The driver's name of a device, for the program to see no other; `none` for the host. */
  visibleAs(id: string): string | undefined;
  readDevice(pids: readonly number[]): Promise<HeldOnDevice | undefined>;
  close(): void;
}

export interface RunDeviceOptions {
  /** It goes on where its device is gone. */
  readonly wasBegun?: boolean;
  /** The home of a server that reads the device for all of its jobs. */
  readonly sharedBy?: string | undefined;
  /** CUDA_VISIBLE_DEVICES, as the program gets it: `auto` takes none of the others. */
  readonly visible?: string | undefined;
}

/**
 * `auto` is the GPU with the most free memory, or the host where there is none. A run that was begun
 * on a device goes on where that is gone: its program is still to be looked after.
 */
export async function openRunDevice(
  wanted: string,
  discovery: Discovery,
  { wasBegun = false, sharedBy, visible }: RunDeviceOptions = {},
): Promise<RunDevice> {
  try {
    const device =
      wanted === 'auto'
        ? await freest(discovery.devices, visible)
        : wasBegun
          ? discovery.devices.find(({ info }) => info.id === wanted)
          : selectDevices(discovery.devices, [wanted])[0];
    const find = (id: string) => discovery.devices.find(({ info }) => info.id === id);
    return {
      id: device?.info.id ?? (wasBegun ? wanted : 'host'),
      name: device?.info.name ?? 'unknown',
      isSimulated: device?.info.provenance === 'simulated',
      isOnlyVisible: visible !== undefined && visibleGpus(discovery.devices, visible).length === 1,
      visibleAs(id) {
        if (id === 'host') return 'none';
        const uuid = find(id)?.info.uuid ?? 'unknown';
        return isKnown(uuid) ? uuid : /^gpu:(\d+)/.exec(id)?.[1];
      },
      async readDevice(pids) {
        if (device === undefined) return undefined;
        const shared =
          sharedBy === undefined
            ? undefined
            : readDeviceUse(sharedBy, device.info.id, systemClock.epochMs());
        return heldBy(pids, shared ?? (await device.processes()));
      },
      close: () => discovery.close(),
    };
  } catch (error) {
    discovery.close();
    throw error;
  }
}

/** Undefined where it cannot be read, or none of them is there. */
function heldBy(pids: readonly number[], processes: DeviceUse): HeldOnDevice | undefined {
  if (!isKnown(processes)) return undefined;
  const known = processes.flatMap(({ pid, usedBytes }) =>
    isKnown(usedBytes) ? { pid, bytes: usedBytes } : [],
  );
  const own = known.filter(({ pid }) => pids.includes(pid));
  if (own.length === 0) return undefined;
  return { processes: own, othersBytes: sumBytes(known) - sumBytes(own) };
}

async function freest(
  devices: readonly Device[],
  visible: string | undefined,
): Promise<Device | undefined> {
  let best: { device: Device; freeBytes: number } | undefined;
  for (const device of visibleGpus(devices, visible)) {
    const free = await freeBytesOf(device);
    if (best === undefined || free > best.freeBytes) best = { device, freeBytes: free };
  }
  return best?.device ?? devices.find(({ info }) => info.kind === 'host');
}

async function freeBytesOf(device: Device): Promise<number> {
  try {
    const { freeBytes } = await device.read();
    return isKnown(freeBytes) ? freeBytes : 0;
  } catch (error) {
    if (!(error instanceof DeviceLost)) throw error;
    return 0;
  }
}
