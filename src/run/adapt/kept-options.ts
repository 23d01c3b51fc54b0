import { GiB, MiB } from '../../units/bytes.js';
import type { RunPlan } from '../store/run-plan.js';

/**
 * What a person said of memory and device, for the next `plimsoll run` that is named to them.
 *
 * @example
 * keptOptions(plan); // ['--memory', '8GiB', '--device', 'gpu:0']
 */
export function keptOptions({
  memoryBytes,
  pinnedDevice,
  settings,
}: Pick<RunPlan, 'memoryBytes' | 'pinnedDevice' | 'settings'>): readonly string[] {
  return [
    ...(memoryBytes === null ? [] : ['--memory', typedSize(memoryBytes)]),
    ...(pinnedDevice ? ['--device', settings.device] : []),
  ];
}

/** To the byte, as a person would type it. */
export function typedSize(bytes: number): string {
  if (bytes % GiB === 0) return `${bytes / GiB}GiB`;
  return bytes % MiB === 0 ? `${bytes / MiB}MiB` : String(bytes);
}
