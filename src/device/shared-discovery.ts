import type { Clock } from '../time/clock.js';
import type { Discovery } from './discover.js';
import { SharedDevice } from './shared-device.js';
import type { Device } from './types.js';

/** A discovery whose devices share their readings among those who look at them. */
export interface SharedDiscovery extends Discovery {
  readonly devices: readonly SharedDevice[];
}

export function shareReadings(discovery: Discovery, clock: Clock): SharedDiscovery {
  // One for each device for as long as that is there: devices are told apart by identity.
  const known = new WeakMap<Device, SharedDevice>();
  const shared = (device: Device): SharedDevice => {
    const before = known.get(device);
    if (before !== undefined) return before;
    const made = new SharedDevice(device, clock);
    known.set(device, made);
    return made;
  };
  return {
    get devices() {
      return discovery.devices.map(shared);
    },
    get notes() {
      return discovery.notes;
    },
    async rescan() {
      const { appeared, vanished } = await discovery.rescan();
      return { appeared: appeared.map(shared), vanished: vanished.map(shared) };
    },
    close: () => discovery.close(),
  };
}
