import { Failure } from '../failure.js';
import { type Figures, figuresOf } from './answer/figures.js';
import { type Fragmentation, fragmentationOf } from './answer/fragmentation.js';
import { type Holder, holdersAt, holdersNow } from './answer/holders.js';
import { findLeaks, type Leaks } from './answer/leaks.js';
import { explainOutOfMemory, type OutOfMemoryEvent } from './answer/out-of-memory.js';
import { replayWith, usualConfs, type WhatIfs } from './answer/what-if.js';
import { type History, rebuildHistory } from './history/history.js';
import type { DeviceSnapshot, Snapshot } from './snapshot.js';

/** All that a snapshot tells about one device. */
export interface SnapshotAnalysis {
  readonly snapshot: Snapshot;
  readonly device: DeviceSnapshot;
  readonly figures: Figures;
  readonly history: History;
  readonly fragmentation: Fragmentation;
  readonly leaks: Leaks;
  readonly outOfMemory: readonly OutOfMemoryEvent[];
  /** Who holds memory now. */
  readonly holders: readonly Holder[];
  /** Who held it when the most was allocated; empty without a recording. */
  readonly peakHolders: readonly Holder[];
  /** Undefined where there was nothing to replay, or too much to do so unasked. */
  readonly whatIfs: WhatIfs | undefined;
}

export interface AnalyseOptions {
  /** The number of the device; else the one that holds the most. */
  readonly device?: number;
  /**
   * Settings to replay the recording with, as in `PYTORCH_CUDA_ALLOC_CONF`; empty: none. Left out,
   * the usual ones, where the recording is not too long.
   */
  readonly whatIf?: readonly string[];
}

/** Replays of more events take long enough that they are made only when asked for. */
const maxUnasked = 1_000_000;

/**
 * Finds out what holds the memory, what leaked, how fragmented it is, why it ran out, and what other
 * settings would have done.
 *
 * @example
 * const analysis = analyseSnapshot(await readSnapshot('snapshot.pickle'));
 * analysis.leaks.leaks.length;
 */
export function analyseSnapshot(
  snapshot: Snapshot,
  options: AnalyseOptions = {},
): SnapshotAnalysis {
  const device = chooseDevice(snapshot, options.device);
  const history = rebuildHistory(snapshot, device);
  const outOfMemory = explainOutOfMemory(snapshot, device, history);
  const recorded = device.events.length > 0;
  const few = device.events.length <= maxUnasked;
  const confs = options.whatIf ?? (few ? usualConfs(snapshot) : []);
  return {
    snapshot,
    device,
    figures: figuresOf(device),
    history,
    fragmentation: fragmentationOf(device, snapshot.names),
    leaks: findLeaks(snapshot, device, history),
    outOfMemory,
    holders: holdersNow(device.segments),
    peakHolders: recorded ? holdersAt(history.lives, history.peakAllocated.index) : [],
    whatIfs:
      recorded && confs.length > 0 ? replayWith(snapshot, device, confs, outOfMemory) : undefined,
  };
}

function reserved({ segments }: DeviceSnapshot): number {
  return segments.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
}

/** The device that was asked for, or the one with the most reserved memory. */
function chooseDevice({ devices }: Snapshot, wanted: number | undefined): DeviceSnapshot {
  const [first] =
    wanted === undefined
      ? devices.toSorted((a, b) => reserved(b) - reserved(a) || b.events.length - a.events.length)
      : devices.filter(({ device }) => device === wanted);
  if (first) return first;
  const there = devices.map(({ device }) => device).join(', ');
  throw new Failure({
    kind: 'input',
    code: devices.length === 0 ? 'empty-snapshot' : 'unknown-device',
    fact:
      devices.length === 0
        ? 'The snapshot holds no segment and no event of any device.'
        : `The snapshot has no device ${wanted}; it has ${there}.`,
    next:
      devices.length === 0
        ? 'Take it while the job runs, after torch.cuda.memory._record_memory_history().'
        : 'Name one of them, or leave --device out.',
  });
}
