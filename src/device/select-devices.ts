import { Failure } from '../failure.js';
import { checkArguments, list, texts } from '../units/arguments.js';
import type { Device } from './types.js';

/**
 * Picks devices by the names people use: `0`, `gpu:0`, `gpu:0/mig:1`, `host`, a UUID, `gpus`,
 * `all`. A GPU's name also stands for its MIG instances. Each device comes once, in the order asked
 * for; no names at all means all.
 *
 * @example
 * selectDevices(discovery.devices, ['0', 'host']);
 */
export function selectDevices<D extends Pick<Device, 'info'>>(
  devices: readonly D[],
  wanted: readonly string[],
): readonly D[] {
  checkArguments('selectDevices', { devices, wanted }, { devices: list, wanted: texts });
  if (wanted.length === 0) return devices;
  const chosen = new Set<D>();
  for (const name of wanted) {
    const found = devices.filter((device) => isMeant(device.info, name.trim()));
    if (found.length === 0) throw unknownDevice(name, devices);
    for (const device of found) chosen.add(device);
  }
  return [...chosen];
}

function isMeant(info: Device['info'], name: string): boolean {
  if (name === 'all') return true;
  if (name === 'gpus') return info.kind === 'gpu';
  const id = /^\d+(?:\/mig:\d+)?$/.test(name) ? `gpu:${name}` : name;
  if (info.id === id || info.id.startsWith(`${id}/`)) return true;
  return info.uuid !== 'unknown' && info.uuid.toLowerCase() === name.toLowerCase();
}

function unknownDevice(name: string, devices: readonly Pick<Device, 'info'>[]): Failure {
  const there = devices.map((device) => device.info.id).join(', ');
  return new Failure({
    kind: 'input',
    code: 'unknown-device',
    fact: `There is no device ${name}; this machine has ${there === '' ? 'none' : there}.`,
    next: 'Run "plimsoll devices" to see them.',
  });
}
