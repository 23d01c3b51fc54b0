import type { ProcessReading } from '../../device/types.js';
import { isKnown } from '../../units/known.js';
import type { Leak } from '../types.js';
import { createLeakDetector, type LeakDetector } from './leak.js';

/** More processes than this are followed only while they are among the largest. */
const usualProcesses = 64;
/** Past readings kept to hold the present against; they thin out as they age. */
const snapshotsKept = 48;
/** Readings whose times are kept: a process that rested this long is known to have rested. */
const timesKept = 600;
/** A neighbour is one that grew while the largest took less than this share of the growth. */
const ownShare = 0.3;

interface Snapshot {
  readonly seconds: number;
  readonly bytesByPid: ReadonlyMap<number, number>;
}

/**
 * A process that has held the same bytes since it was first seen: most do, and a detector has nothing to
 * find in them. It gets one, with the same readings, when that changes.
 */
interface Rest {
  readonly sinceSeconds: number;
  readonly bytes: number;
}

/** Whether memory grows, be it known to be a leak or not. */
export function isGrowing(leak: Leak): boolean {
  return leak.found !== false && isKnown(leak.bytesPerSecond);
}

/** Follows each process on a device: which of them leaks, and which of them made it grow. */
export class ProcessGrowth {
  readonly #detectors = new Map<number, LeakDetector>();
  readonly #rests = new Map<number, Rest>();
  #times: number[] = [];
  readonly #maxProcesses: number;
  #snapshots: Snapshot[] = [];

  constructor(maxProcesses = usualProcesses) {
    this.#maxProcesses = maxProcesses;
  }

  add(seconds: number, processes: readonly ProcessReading[], limitBytes: number): void {
    const bytesByPid = new Map<number, number>();
    for (const { pid, usedBytes } of processes.slice(0, this.#maxProcesses)) {
      if (isKnown(usedBytes)) bytesByPid.set(pid, usedBytes);
    }
    for (const followed of [this.#detectors, this.#rests]) {
      for (const pid of followed.keys()) if (!bytesByPid.has(pid)) followed.delete(pid);
    }
    for (const [pid, bytes] of bytesByPid) this.#follow(pid, seconds, bytes, limitBytes);
    this.#times.push(seconds);
    if (this.#times.length >= 2 * timesKept) this.#times = this.#times.slice(-timesKept);
    this.#snapshots.push({ seconds, bytesByPid });
    if (this.#snapshots.length > snapshotsKept) {
      // Keep the recent half whole and every second one of the older half.
      const half = snapshotsKept / 2;
      this.#snapshots = this.#snapshots.filter((_, i) => i >= half || i % 2 === 0);
    }
  }

  #follow(pid: number, seconds: number, bytes: number, limitBytes: number): void {
    const known = this.#detectors.get(pid);
    if (known) {
      known.add(seconds, bytes, limitBytes);
      return;
    }
    const rest = this.#rests.get(pid);
    if (!rest) this.#rests.set(pid, { sinceSeconds: seconds, bytes });
    if (!rest || rest.bytes === bytes) return;
    const detector = createLeakDetector();
    for (const at of this.#times) {
      if (at >= rest.sinceSeconds) detector.add(at, rest.bytes, limitBytes);
    }
    detector.add(seconds, bytes, limitBytes);
    this.#rests.delete(pid);
    this.#detectors.set(pid, detector);
  }

  /** Of the processes that grow, what is known of it. */
  leaks(): ReadonlyMap<number, Leak> {
    const found = new Map<number, Leak>();
    for (const [pid, detector] of this.#detectors) {
      const leak = detector.leak();
      if (isGrowing(leak)) found.set(pid, leak);
    }
    return found;
  }

  /** Whether what the device gained since then went to others than its largest holder. */
  grewByNeighbour(sinceSeconds: number): boolean {
    const before = this.#snapshots.findLast((snapshot) => snapshot.seconds <= sinceSeconds);
    const now = this.#snapshots.at(-1);
    if (!before || !now || before === now || before.bytesByPid.size === 0) return false;
    const [owner] = [...before.bytesByPid].reduce((a, b) => (b[1] > a[1] ? b : a));
    let gained = 0;
    for (const [pid, bytes] of now.bytesByPid) {
      gained += Math.max(0, bytes - (before.bytesByPid.get(pid) ?? 0));
    }
    const ownGain = (now.bytesByPid.get(owner) ?? 0) - (before.bytesByPid.get(owner) ?? 0);
    return now.bytesByPid.has(owner) && gained > 0 && ownGain < ownShare * gained;
  }
}
