import type { DeviceProvider } from './types.js';

/**
 * Two ways to the same devices: the second is only asked where the first finds none. A machine
 * is read through one of them at a time, so no device shows twice.
 */
export function eitherProvider(first: DeviceProvider, second: DeviceProvider): DeviceProvider {
  return {
    source: first.source,
    async list() {
      const better = await first.list();
      if (better.devices.length > 0) return better;
      const other = await second.list();
      return { devices: other.devices, notes: [...better.notes, ...other.notes] };
    },
    async fingerprint() {
      return `${await first.fingerprint()}\n${await second.fingerprint()}`;
    },
    close() {
      first.close();
      second.close();
    },
  };
}
