import { isKnown } from '../units/known.js';
import type { Device } from './types.js';

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
