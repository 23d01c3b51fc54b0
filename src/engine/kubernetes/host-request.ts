import { MiB } from '../../units/bytes.js';
import { hostNeedBytes } from '../host-need.js';
import type { PodNeed, Texts } from './pod-request.js';

/** What a person stated; what is left out is derived from the need on the GPU. */
export interface StatedHost {
  readonly memoryBytes?: number | undefined;
  readonly cpus?: number | undefined;
}

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
  const { memoryBytes = hostNeedBytes(gpus, needBytes), cpus = gpus * cpusPerGpu } = stated;
  return {
    ...(cpus > 0 && { cpu: String(cpus) }),
    ...(memoryBytes > 0 && { memory: `${Math.ceil(memoryBytes / MiB)}Mi` }),
  };
}
