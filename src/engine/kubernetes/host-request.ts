import { GiB, MiB } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { PodNeed, Texts } from './pod-request.js';

/** What a person stated; what is left out is derived from the need on the GPU. */
export interface StatedHost {
  readonly memoryBytes?: number | undefined;
  readonly cpus?: number | undefined;
}

/** Libraries of PyTorch and CUDA in a process (1.0 to 1.5 GB were measured), loaders, our supervisor. */
const librariesBytes = 3 * GiB;
/** Weights are made or read on the host: at most a quarter of what a training with AdamW holds. */
const weightsShare = 1 / 4;
/** The program and its loader. */
const cpusPerGpu = 2;

/**
 * Host memory and processors that a job with GPUs requests. A rule, not an estimate; as requests alone,
 * so that a job that takes more is not killed for it. A job of the host has its memory as a limit.
 *
 * @example
 * hostRequest({ gpus: 1, needBytes: 20 * GiB }, {}); // { cpu: '2', memory: '8192Mi' }
 */
export function hostRequest({ gpus, needBytes }: PodNeed, stated: StatedHost): Texts {
  const { memoryBytes = derivedBytes({ gpus, needBytes }), cpus = gpus * cpusPerGpu } = stated;
  return {
    ...(cpus > 0 && { cpu: String(cpus) }),
    ...(memoryBytes > 0 && { memory: `${Math.ceil(memoryBytes / MiB)}Mi` }),
  };
}

/** One process for each GPU. */
function derivedBytes({ gpus, needBytes }: PodNeed): number {
  if (gpus === 0) return 0;
  return gpus * (librariesBytes + (isKnown(needBytes) ? needBytes * weightsShare : 0));
}
