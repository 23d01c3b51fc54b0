import { freemem, release, totalmem, type } from 'node:os';
import { type Clock, systemClock } from '../../time/clock.js';
import type { Device, DeviceProvider } from '../device.js';
import { machineRoots, type Roots } from '../kernel-files.js';
import { hostInfo, LinuxHost } from './linux-host.js';

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

/** The host on systems without /proc: what Node itself can tell. */
function otherHost(): Device {
  return {
    info: hostInfo(`${type()} ${release()}`),
    read() {
      const totalBytes = totalmem();
      const freeBytes = Math.min(freemem(), totalBytes);
      return {
        totalBytes,
        usedBytes: totalBytes - freeBytes,
        freeBytes,
        utilizationPercent: 'unknown',
        host: {
          swapTotalBytes: 'unknown',
          swapUsedBytes: 'unknown',
          limitBytes: 'none',
          limitedBy: 'ram',
          pressureSomePercent: 'unknown',
          pressureFullPercent: 'unknown',
        },
      };
    },
    processes: () => Promise.resolve('unknown'),
  };
}
