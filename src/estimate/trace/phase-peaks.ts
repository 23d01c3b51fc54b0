import type { CachingAllocator } from '../allocator/caching-allocator.js';
import type { AllocatorSettings } from '../allocator/settings.js';
import type { PhasePeak } from '../types.js';
import { replay } from './event-replay.js';
import type { EventStream } from './event-stream.js';

const prefix = 'phase:';

/**
 * The highest figures of each phase of a program, in the order in which phases began. The one that
 * reserves the most first, in time, makes the peak.
 *
 * @example
 * phasePeaks(trace.stream).find(({ makesPeak }) => makesPeak)?.phase; // 'steady steps'
 */
export function phasePeaks(
  stream: EventStream,
  settings: Partial<AllocatorSettings> = {},
): PhasePeak[] {
  const found = new Map<string, { allocatedBytes: number; reservedBytes: number }>();
  let current: string | undefined;
  let highest = { phase: '', reservedBytes: 0 };
  const take = (allocator: CachingAllocator) => {
    if (current === undefined) return;
    const before = found.get(current) ?? { allocatedBytes: 0, reservedBytes: 0 };
    found.set(current, {
      allocatedBytes: Math.max(before.allocatedBytes, allocator.peakAllocatedBytes),
      reservedBytes: Math.max(before.reservedBytes, allocator.memory.peakReservedBytes),
    });
    // A phase that comes again holds what the one before it reserved, and did not make that peak.
    if (allocator.memory.peakReservedBytes > highest.reservedBytes) {
      highest = { phase: current, reservedBytes: allocator.memory.peakReservedBytes };
    }
    allocator.resetPeaks();
  };
  const { allocator } = replay(stream, settings, (name, at) => {
    if (!name.startsWith(prefix)) return;
    take(at);
    current = name.slice(prefix.length);
  });
  take(allocator);
  return [...found].map(([phase, { allocatedBytes, reservedBytes }]) => ({
    phase,
    allocatedBytes,
    reservedBytes,
    makesPeak: phase === highest.phase,
  }));
}
