import { assumedContext } from '../../estimate/cards/gpu-table.js';
import { placeholdersOf } from '../../run/placeholders.js';
import { MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import type { ClusterOrder } from '../cluster.js';
import { hostNeedBytes } from '../measured-peaks.js';

/** How a cluster shares GPUs: HAMi, the KAI scheduler, or not at all. */
export const gpuSharings = ['hami', 'kai', 'none'] as const;
export type GpuSharing = (typeof gpuSharings)[number];

/** The need of a pod: on each of its GPUs, or of host memory if it has none. */
export interface PodNeed {
  readonly gpus: number;
  readonly needBytes: Known<number>;
}

export type Texts = Readonly<Record<string, string>>;

/** The request of a pod, in the words of its cluster. */
export interface PodRequest {
  /** Of its container; requests are the same. */
  readonly limits: Texts;
  readonly annotations: Texts;
  readonly labels: Texts;
  readonly scheduler?: string;
  /** Limit of the process; `none` if it has a whole GPU. */
  readonly limitBytes: number | 'none';
}

/**
 * Returns the variables with the SDK's limit for PyTorch. The GPU is chosen later, so the usual
 * bytes of a CUDA context are left beside it.
 */
export function sdkVariables(
  { gpus }: Pick<PodNeed, 'gpus'>,
  { limitBytes }: Pick<PodRequest, 'limitBytes'>,
): Texts {
  if (limitBytes === 'none') return {};
  const contextBytes = gpus === 0 ? 0 : assumedContext.bytes;
  return { PLIMSOLL_MEMORY_BYTES: String(Math.max(1, limitBytes - contextBytes)) };
}

/** Resources of Kubernetes by which memory of GPUs is asked for. */
export const gpuResource = 'nvidia.com/gpu';
const gpuMemoryResource = 'nvidia.com/gpumem';
export const kaiMemory = 'gpu-memory';
const kaiScheduler = 'kai-scheduler';

/**
 * Returns the request for a pod.
 *
 * @example
 * podRequest({ gpus: 1, needBytes: 20 * GiB }, 'hami').limits;
 * // { 'nvidia.com/gpu': '1', 'nvidia.com/gpumem': '20480' }
 */
export function podRequest({ gpus, needBytes }: PodNeed, sharing: GpuSharing): PodRequest {
  const mebibytes = isKnown(needBytes) ? String(Math.ceil(needBytes / MiB)) : undefined;
  const none = { annotations: {}, labels: {} };
  const isShared = gpus === 0 || sharing !== 'none';
  const limitBytes: number | 'none' = isKnown(needBytes) && isShared ? needBytes : 'none';
  if (gpus === 0) {
    return {
      ...none,
      limitBytes,
      limits: mebibytes === undefined ? {} : { memory: `${mebibytes}Mi` },
    };
  }
  const whole = { [gpuResource]: String(gpus) };
  if (sharing === 'hami') {
    const part = mebibytes === undefined ? {} : { [gpuMemoryResource]: mebibytes };
    return { ...none, limitBytes, limits: { ...whole, ...part } };
  }
  if (sharing === 'none') return { ...none, limitBytes, limits: whole };
  const kai = { labels: { 'kai.scheduler/queue': 'default' }, scheduler: kaiScheduler, limitBytes };
  if (mebibytes === undefined) return { ...kai, limits: whole, annotations: {} };
  const several = gpus > 1 ? { 'gpu-fraction-num-devices': String(gpus) } : {};
  return { ...kai, limits: {}, annotations: { [kaiMemory]: mebibytes, ...several } };
}

/** The host settings of the user; absent ones are derived from the need on the GPU. */
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

/** Whether the program runs under `plimsoll run`: where the image has it, always, or never. */
export const supervisions = ['auto', 'always', 'never'] as const;
export type Supervision = (typeof supervisions)[number];

/** The command of a container, as `asWritten` writes it. */
export function supervisedCommand(
  { command, batch, gpus }: Pick<ClusterOrder, 'command' | 'batch' | 'gpus'>,
  supervision: Supervision,
): readonly string[] {
  const options = [
    ...(isKnown(batch) ? ['--batch-size', String(batch)] : []),
    ...(gpus === 0 ? ['--device', 'host'] : []),
  ];
  const run = ['plimsoll', 'run', ...options, '--'];
  if (supervision === 'never') return command.map(asWritten);
  if (supervision === 'always') return [...run, ...command].map(asWritten);
  const alone =
    placeholdersOf(command).size === 0
      ? 'exec "$@"'
      : 'echo "plimsoll is not in this image; only it fills the placeholders of the command." >&2; exit 127';
  const script = `command -v plimsoll >/dev/null 2>&1 && exec ${run.join(' ')} "$@"; ${alone}`;
  return ['sh', '-c', script, 'sh', ...command].map(asWritten);
}

/**
 * A text of a manifest that Kubernetes leaves as `text` is: it reads `$$` as one dollar sign, and
 * replaces `$(NAME)`, so each dollar sign is written twice.
 */
export function asWritten(text: string): string {
  return text.replaceAll('$', () => '$$');
}
