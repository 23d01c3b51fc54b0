import { formatBytes } from '../../units/bytes.js';
import type { ChooseOptions, PresetOption } from './choice.js';

/** Why this preset, in words for people. */
export function choiceReason(
  chosen: PresetOption | undefined,
  all: readonly PresetOption[],
  { freeBytes, hostFreeBytes, forTraining }: ChooseOptions,
): string {
  const purpose = forTraining ? 'training' : 'inference';
  const free = `${formatBytes(freeBytes)} of the GPU and ${formatBytes(hostFreeBytes)} of the host are free`;
  if (chosen === undefined) {
    const least = Math.min(...all.filter(({ preset }) => preset !== 'cpu').map(totalOf));
    return `Nothing fits for ${purpose}: ${free}; the smallest needs ${formatBytes(least)} (estimated).`;
  }
  const { preset, training } = chosen;
  const bytes = [
    ...(chosen.gpuBytes > 0 ? [`${formatBytes(chosen.gpuBytes)} of the GPU`] : []),
    ...(chosen.hostBytes > 0 ? [`${formatBytes(chosen.hostBytes)} of the host`] : []),
  ].join(' and ');
  const better = all[all.indexOf(chosen) - 1];
  const method = training === 'lora' ? ' with LoRA' : '';
  const best = better === undefined ? 'the most precise there is' : 'the most precise that fits';
  const next =
    better === undefined ? '' : ` ${nameOf(better)} would need ${formatBytes(totalOf(better))}.`;
  const place = preset === 'cpu' ? 'Only the host has room' : `It is ${best}`;
  return `${place} for ${purpose}${method}: it needs about ${bytes} (estimated); ${free}.${next}`;
}

function totalOf({ gpuBytes, hostBytes }: PresetOption): number {
  return gpuBytes + hostBytes;
}

function nameOf({ preset, training }: PresetOption): string {
  return training === 'none' ? preset : `${preset} (${training})`;
}
