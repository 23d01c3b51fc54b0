import type { CachingAllocator } from '../allocator/caching-allocator.js';
import type { PhasePeak } from '../types.js';

const prefix = 'phase:';

/**
 * The highest figures of each phase of a program, seen while it is replayed. The phase that reserves the most first,
 * in time, makes the peak. One watch may see several replays, each of which has an allocator of its own.
 *
 * @example
 * const watch = new PhaseWatch();
 * const { allocator } = replay(trace.stream, {}, watch.onMark);
 * watch.peaksOf(allocator).find(({ makesPeak }) => makesPeak)?.phase; // 'steady steps'
 */
export class PhaseWatch {
  readonly #seen = new Map<CachingAllocator, Phases>();

  readonly onMark = (name: string, allocator: CachingAllocator): void => {
    if (!name.startsWith(prefix)) return;
    const phases = this.#seen.get(allocator) ?? new Phases(allocator);
    this.#seen.set(allocator, phases);
    phases.begin(name.slice(prefix.length));
  };

  /** In the order in which phases began, at the end of the replay with this allocator. */
  peaksOf(allocator: CachingAllocator): PhasePeak[] {
    return this.#seen.get(allocator)?.end() ?? [];
  }
}

class Phases {
  readonly #allocator: CachingAllocator;
  readonly #found = new Map<string, { allocatedBytes: number; reservedBytes: number }>();
  #current: string | undefined;
  #highest = { phase: '', reservedBytes: 0 };

  constructor(allocator: CachingAllocator) {
    this.#allocator = allocator;
  }

  begin(phase: string): void {
    this.#take();
    this.#current = phase;
  }

  end(): PhasePeak[] {
    this.#take();
    return [...this.#found].map(([phase, { allocatedBytes, reservedBytes }]) => ({
      phase,
      allocatedBytes,
      reservedBytes,
      makesPeak: phase === this.#highest.phase,
    }));
  }

  #take(): void {
    const allocator = this.#allocator;
    const current = this.#current;
    if (current === undefined) return;
    const before = this.#found.get(current) ?? { allocatedBytes: 0, reservedBytes: 0 };
    this.#found.set(current, {
      allocatedBytes: Math.max(before.allocatedBytes, allocator.peakAllocatedBytes),
      reservedBytes: Math.max(before.reservedBytes, allocator.memory.peakReservedBytes),
    });
    // A phase that comes again holds what the one before it reserved, and did not make that peak.
    if (allocator.memory.peakReservedBytes > this.#highest.reservedBytes) {
      this.#highest = { phase: current, reservedBytes: allocator.memory.peakReservedBytes };
    }
    allocator.resetPeaks();
  }
}
