import { freemem, release, totalmem, type } from 'node:os';
import type { Device } from '../types.js';
import { hostInfo } from './host-info.js';

/** The host on systems without /proc: what Node itself can tell. */
export function otherHost(): Device {
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
