import { formatBytes } from '../units/bytes.js';
import { isKnown } from '../units/known.js';
import type { NextAttempt } from './ladder/climb.js';
import type { Attempt, RunSettings } from './types.js';

/** What an attempt is told, in a few words: `batch 8 x 4, checkpointing, bf16`. */
export function settingsWords(settings: RunSettings): string {
  const { batch_size: batch, accumulation } = settings;
  return [
    ...(isKnown(batch) ? [`batch ${batch} x ${accumulation}`] : []),
    ...(settings.checkpointing ? ['checkpointing'] : []),
    ...(settings.precision === 'fp32' ? [] : [settings.precision]),
    ...(settings.offload ? ['offload'] : []),
    `on ${settings.device}`,
  ].join(', ');
}

export function outOfMemoryMessage({ number, outOfMemory, settings }: Attempt): string {
  const asked = outOfMemory?.askedBytes ?? 'unknown';
  const wanted = isKnown(asked) ? `, asking for ${formatBytes(asked)}` : '';
  return `plimsoll: attempt ${number} (${settingsWords(settings)}) ran out of memory: ${outOfMemory?.kind ?? 'unknown'}${wanted}.`;
}

export function nextMessage({ rung, why, settings }: NextAttempt, number: number): string {
  return `plimsoll: ${rung}: ${why} Attempt ${number}: ${settingsWords(settings)}.`;
}
