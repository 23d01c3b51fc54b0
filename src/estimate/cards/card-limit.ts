import { MiB } from '../../units/bytes.js';
import type { AllocatorSettings } from '../allocator/settings.js';
import { type LookedAt, type OnMark, type ReplayResult, replay } from '../trace/event-replay.js';
import type { EventStream } from '../trace/event-stream.js';
import type { Gpu } from './gpu-table.js';

/**
 * Share of a card that the driver keeps for itself: NVML counts it, CUDA does not. On the H200 615
 * MiB are missing; smaller cards keep about 2 %.
 */
const driverShare = 0.02;
const maxDriverBytes = 615 * MiB;

/**
 * Returns the bytes for segments on a card that nothing else uses.
 *
 * @example
 * roomOn(findGpu('3060')); // 12250000000 or so of 12884901888
 */
export function roomOn({ capacityBytes, context }: Gpu): number {
  const driver = Math.min(maxDriverBytes, Math.ceil(capacityBytes * driverShare));
  return Math.max(0, capacityBytes - driver - context.bytes);
}

export interface LimitedReplay extends ReplayResult {
  /** Whether the card's memory kept the allocator from holding more. */
  readonly limited: boolean;
  /** The most that was granted without a limit. */
  readonly uncappedBytes: number;
}

/**
 * A replay as it runs on the card: where memory ends the allocator gives back what it holds unused and
 * tries again, so it never holds more than there is. What does not fit at all is replayed without a
 * limit, and shows what would be needed. `looked` is called with the replay that has no limit, `onMark` with
 * both, each with its own allocator.
 *
 * @example
 * replayOn(findGpu('3060'), stream).peakReservedBytes;
 */
export function replayOn(
  gpu: Gpu,
  stream: EventStream,
  settings: Partial<AllocatorSettings> = {},
  looked?: LookedAt,
  onMark?: OnMark,
): LimitedReplay {
  const unlimited = replay(stream, settings, onMark, looked);
  const uncappedBytes = unlimited.allocator.memory.maxGrantedBytes;
  if (uncappedBytes <= roomOn(gpu)) return { ...unlimited, limited: false, uncappedBytes };
  const limited = replay(stream, { ...settings, ...limitOf(gpu) }, onMark);
  return limited.outOfMemory === undefined
    ? { ...limited, limited: true, uncappedBytes }
    : { ...unlimited, limited: false, uncappedBytes };
}

/** The allocator's settings on a card that nothing else runs on. */
function limitOf(gpu: Gpu): Pick<AllocatorSettings, 'allowedBytes' | 'deviceBytes'> {
  const room = roomOn(gpu);
  return { allowedBytes: room, deviceBytes: room };
}
