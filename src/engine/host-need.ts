import { GiB } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';

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
