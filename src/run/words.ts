import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown } from '../units/known.js';
import type { NextAttempt } from './ladder/climb.js';
import type { Attempt, AttemptSpill, OutOfMemory, RunSettings } from './types.js';

/** What an attempt is told, in a few words: `batch 8 x 4, checkpointing, bf16`. */
export function settingsWords(settings: RunSettings): string {
  const { batch_size: batch, accumulation } = settings;
  return [
    ...(isKnown(batch) ? [`batch ${batch} x ${accumulation}`] : []),
    ...(settings.checkpointing ? ['checkpointing'] : []),
    ...(settings.precision === 'fp32' ? [] : [settings.precision]),
    ...(settings.offload ? ['offload'] : []),
    ...(settings.spill_headroom_bytes === undefined ? [] : ['spilling']),
    `on ${deviceWords(settings)}`,
  ].join(', ');
}

/** `gpu:0`, or `gpu:0 (simulated)` where no such GPU is there. */
export function deviceWords({
  device,
  simulated_device: isSimulated = false,
}: Pick<RunSettings, 'device' | 'simulated_device'>): string {
  return placesWords({ devices: [device], simulated: isSimulated && device !== 'host' });
}

/** The same of all devices that are promised to a job. */
export function placesWords(
  {
    devices,
    simulated = false,
  }: { readonly devices: readonly string[]; readonly simulated?: boolean | undefined },
  separator = ', ',
): string {
  return `${devices.join(separator)}${simulated ? ' (simulated)' : ''}`;
}

/** How memory ran out: `killed by the kernel at its 300 MiB limit`, `out of memory (cuda)`. */
export function outOfMemoryWords({
  kind,
  totalBytes,
}: Pick<OutOfMemory, 'kind' | 'totalBytes'>): string {
  switch (kind) {
    case 'killed-at-limit':
    case 'cgroup-killer': // in earlier reports
      return isKnown(totalBytes)
        ? `killed by the kernel at its ${formatBytes(totalBytes)} limit`
        : 'killed by the kernel at its memory limit';
    case 'killed-by-kernel':
    case 'kernel-killer': // in earlier reports
      return 'killed by the kernel because the memory was full';
    default:
      return `out of memory (${kind})`;
  }
}

/**
 * How memory of an attempt gave way, in a sentence.
 *
 * @example
 * spillWords(attempt.spill); // Memory gave way: 12.0 GiB to the host and 12.0 GiB back, 4.1 s computed again, 0.8 s waited (measured).
 */
export function spillWords(spill: AttemptSpill): string {
  const { bytesOut, bytesBack, recomputedSeconds, stallSeconds, aside } = spill;
  if (aside !== undefined && bytesOut === 0 && recomputedSeconds === 0) {
    return `Spilling left the program alone: ${aside.replace(/\.$/, '')}.`;
  }
  const moved = `${formatBytes(bytesOut)} to the host and ${formatBytes(bytesBack)} back`;
  const seconds = `${formatSeconds(recomputedSeconds)} computed again, ${formatSeconds(stallSeconds)} waited for copies`;
  return `Memory gave way: ${moved}, ${seconds} (measured).`;
}

export function outOfMemoryMessage({ number, outOfMemory, settings }: Attempt): string {
  const how = outOfMemory === null ? 'out of memory' : outOfMemoryWords(outOfMemory);
  const asked = outOfMemory?.askedBytes ?? 'unknown';
  const wanted = isKnown(asked) ? `, asking for ${formatBytes(asked)}` : '';
  return `plimsoll: attempt ${number} (${settingsWords(settings)}): ${how}${wanted}.`;
}

/**
 * Says that an attempt held more than the limit that PyTorch was to keep; undefined where it did not.
 * The kernel's own limits cannot be passed.
 */
export function passedLimit({
  number,
  limit,
  peakBytes,
  peakFrom,
}: Pick<Attempt, 'number' | 'limit' | 'peakBytes' | 'peakFrom'>): string | undefined {
  if (limit.by !== 'sdk' || peakFrom !== 'sdk' || typeof limit.bytes !== 'number') return undefined;
  if (!isKnown(peakBytes) || peakBytes <= limit.bytes) return undefined;
  return `Attempt ${number} held ${formatBytes(peakBytes)} and passed its limit of ${formatBytes(limit.bytes)}: the program changed PyTorch's own limit, or took memory in another way.`;
}

export function nextMessage({ rung, why, settings }: NextAttempt, number: number): string {
  return `plimsoll: ${rung}: ${why} Attempt ${number}: ${settingsWords(settings)}.`;
}
