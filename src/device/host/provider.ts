import { type Clock, systemClock } from '../../time/clock.js';
import { machineRoots, type Roots } from '../roots.js';
import type { Device, DeviceProvider } from '../types.js';
import { LinuxHost } from './linux-host.js';
import { otherHost } from './other-host.js';

export interface HostOptions {
  readonly roots?: Roots;
  readonly clock?: Clock;
  readonly platform?: NodeJS.Platform;
}

/**
 * The host: always there, one device.
 *
 * @example
 * const { devices } = await hostProvider().list();
 * const reading = await devices[0]?.read();
 */
export function hostProvider(options: HostOptions = {}): DeviceProvider {
  const { roots = machineRoots, clock = systemClock, platform = process.platform } = options;
  let host: Device | undefined;
  return {
    source: 'host',
    list() {
      host ??= platform === 'linux' ? new LinuxHost(roots.proc, clock) : otherHost();
      return Promise.resolve({ devices: [host], notes: [] });
    },
    fingerprint: () => Promise.resolve('host'),
    close() {},
  };
}
