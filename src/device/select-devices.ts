import { Failure } from '../failure.js';
import { checkArguments, list, texts } from '../units/arguments.js';
import { isKnown } from '../units/known.js';
import type { Device } from './device.js';

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

/**
 * Hands out the N of `gpu:N`. A GPU keeps its number for as long as this object lives, also when
 * it vanishes and comes back, so that a history keyed by id never changes hands.
 */
export class GpuNumbers {
  readonly #numbers = new Map<string, number>();

  /** The number of the GPU known by `key`: its own, else the wished one if free, else the next. */
  numberOf(key: string, wished?: number): number {
    const own = this.#numbers.get(key);
    if (own !== undefined) return own;
    const taken = new Set(this.#numbers.values());
    let number = wished !== undefined && !taken.has(wished) ? wished : 0;
    while (taken.has(number)) number += 1;
    this.#numbers.set(key, number);
    return number;
  }
}

/**
 * The GPUs that CUDA_VISIBLE_DEVICES leaves to a program: a scheduler such as Slurm sets it. Like
 * CUDA, it stops at the first entry that names none. Parts of a GPU (MIG) cannot be told apart here:
 * then all count.
 *
 * @example
 * visibleGpus(devices, '1').map(({ info }) => info.id); // ['gpu:1']
 */
export function visibleGpus(
  devices: readonly Device[],
  variable: string | undefined,
): readonly Device[] {
  const gpus = devices.filter(({ info }) => info.kind === 'gpu');
  if (variable === undefined || variable.trim().startsWith('MIG-')) return gpus;
  const visible: Device[] = [];
  for (const word of variable.split(',').map((one) => one.trim())) {
    const found = gpus.find((gpu) => isNamed(gpu, word));
    if (found === undefined) break;
    if (!visible.includes(found)) visible.push(found);
  }
  return visible;
}

function isNamed({ info: { id, uuid } }: Device, word: string): boolean {
  if (/^\d+$/.test(word)) return id === `gpu:${Number(word)}`;
  return word.startsWith('GPU-') && isKnown(uuid) && uuid.startsWith(word);
}
