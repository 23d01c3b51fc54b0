import { formatBytes, MiB } from '../units/bytes.js';

export interface LoadingFacts {
  readonly cores: number;
  readonly hostFreeBytes: number;
  readonly gpus: number;
  /** What the configuration fixes. */
  readonly fixed: {
    readonly [Name in Exclude<keyof LoadingSettings, 'reasons'>]?:
      | LoadingSettings[Name]
      | undefined;
  };
}

/** What a torch DataLoader is to be told. */
export interface LoadingSettings {
  readonly workers: number;
  readonly pinMemory: boolean;
  readonly persistentWorkers: boolean;
  /** Batches that each worker prepares ahead; 0 without workers. */
  readonly prefetch: number;
  readonly reasons: readonly string[];
}

/** As `plimsoll.loader` decides: half of the free memory, at most, is for workers. */
const memoryShare = 0.5;
/** What a worker that imported torch holds alone; estimated, since it was not started. */
const workerBytes = 400 * MiB;
const usualPrefetch = 2;

/**
 * How to load data, as far as the machine tells. How long a batch and a step take is not known before
 * the program runs: `plimsoll.loader` measures them and needs fewer workers where that is enough.
 *
 * @example
 * loadingSettings({ cores: 8, hostFreeBytes: 2 ** 35, gpus: 1, fixed: {} }).workers; // 7
 */
export function loadingSettings({
  cores,
  hostFreeBytes,
  gpus,
  fixed,
}: LoadingFacts): LoadingSettings {
  const wanted = Math.max(0, cores - 1);
  const affordable = Math.floor((memoryShare * hostFreeBytes) / workerBytes);
  const workers = fixed.workers ?? Math.min(wanted, affordable);
  const pinMemory = fixed.pinMemory ?? gpus > 0;
  return {
    workers,
    pinMemory,
    persistentWorkers: workers > 0 && (fixed.persistentWorkers ?? true),
    prefetch: workers > 0 ? (fixed.prefetch ?? usualPrefetch) : 0,
    reasons: [
      workersReason(workers, wanted, cores, fixed.workers !== undefined),
      pinMemory
        ? 'Pinned memory: copies to the card run beside it.'
        : 'No pinned memory: there is no CUDA card here.',
    ],
  };
}

function workersReason(workers: number, wanted: number, cores: number, isFixed: boolean): string {
  if (isFixed) return `${counted(workers)}, as the configuration says.`;
  if (workers < wanted) {
    return `${counted(workers)} instead of ${wanted}: each takes about ${formatBytes(workerBytes)} of the host.`;
  }
  if (workers === 0) return 'No workers: there is one core, which the training needs.';
  return `At most ${counted(workers)}, one for each of ${cores} cores but one.`;
}

function counted(workers: number): string {
  return workers === 1 ? '1 worker' : `${workers} workers`;
}
