import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../files/folders.js';
import { readOwnDocument } from '../files/own-file.js';
import { GiB } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';

/** The measured peak of one run of a workload. */
export interface MeasuredPeak {
  readonly peakBytes: number;
  /** `none` where it did not run out of memory. */
  readonly askedBytes: Known<number> | 'none';
  readonly seconds: number;
}

/** The folder for the peaks of all jobs of a home, from clusters and packed lists. */
export function measuredFolder(home: string): string {
  return join(home, 'measured');
}

/** The newest runs tell what the next one needs. */
const maxRuns = 50;
const maxBytes = 4096;

/** Each run writes a file of its own: writers on many nodes never meet. */
export function keepPeak(
  folder: string,
  workloadKey: string,
  peak: MeasuredPeak,
  atMs: number,
): void {
  const runs = join(folder, workloadKey);
  makeFolder(runs, 0o700);
  const path = join(
    runs,
    `${String(atMs).padStart(15, '0')}-${randomBytes(4).toString('hex')}.json`,
  );
  writeFileSync(`${path}.tmp`, JSON.stringify({ schema: 1, ...peak }));
  renameSync(`${path}.tmp`, path);
}

/** Reads the measured peaks of a workload, the newest first; skips unreadable files. */
export function keptPeaks(folder: string, workloadKey: string): readonly MeasuredPeak[] {
  const runs = join(folder, workloadKey);
  if (!existsSync(runs)) return [];
  const names = readdirSync(runs).filter((name) => name.endsWith('.json'));
  return names
    .toSorted()
    .slice(-maxRuns)
    .toReversed()
    .flatMap((name) => {
      const peak = readOwnDocument(join(runs, name), { schema: 1, maxBytes });
      return peak !== undefined && isPeak(peak) ? [peak] : [];
    });
}

type Document = Readonly<Record<string, unknown>>;

function isPeak(peak: Document): peak is Document & MeasuredPeak {
  const { peakBytes, askedBytes, seconds } = peak;
  return (
    Number.isSafeInteger(peakBytes) &&
    Number(peakBytes) >= 0 &&
    (askedBytes === 'none' || askedBytes === 'unknown' || Number.isSafeInteger(askedBytes)) &&
    typeof seconds === 'number'
  );
}

/** Libraries of PyTorch and CUDA in a process (1.0 to 1.5 GB were measured), loaders, our supervisor. */
const librariesBytes = 3 * GiB;
/** Weights are made or read on the host: at most a quarter of what a training with AdamW holds. */
const weightsShare = 1 / 4;

/**
 * Host memory that a job with GPUs needs at least, with one process for each. A rule, not an estimate.
 *
 * @example
 * hostNeedBytes(1, 20 * GiB); // 8 GiB
 */
export function hostNeedBytes(gpus: number, needBytes: Known<number>): number {
  return gpus * (librariesBytes + (isKnown(needBytes) ? needBytes * weightsShare : 0));
}
