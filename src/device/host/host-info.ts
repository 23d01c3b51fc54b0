import { arch } from 'node:os';
import type { DeviceInfo } from '../types.js';

/** What the host is called, whatever it is read by. */
export function hostInfo(driver: string): DeviceInfo {
  return {
    id: 'host',
    kind: 'host',
    name: `RAM (${arch()})`,
    source: 'host',
    provenance: 'measured',
    uuid: 'unknown',
    driver,
  };
}
