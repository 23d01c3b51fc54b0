import { MiB } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { ClusterOrder } from '../cluster.js';

/** How a cluster shares GPUs: HAMi, the KAI scheduler, or not at all. */
export const gpuSharings = ['hami', 'kai', 'none'] as const;
export type GpuSharing = (typeof gpuSharings)[number];

export interface ManifestOptions {
  readonly order: Pick<ClusterOrder, 'name' | 'command' | 'gpus' | 'needBytes'>;
  /** Unique in its namespace. */
  readonly id: string;
  readonly image: string;
  /** The one that kubectl uses where it is left out. */
  readonly namespace?: string | undefined;
  readonly sharing: GpuSharing;
  readonly environment: Readonly<Record<string, string>>;
}

type Texts = Readonly<Record<string, string>>;

/** What a pod asks for, in the words of its cluster. */
interface PodRequest {
  readonly limits: Texts;
  readonly annotations: Texts;
  readonly labels: Texts;
  readonly scheduler?: string;
}

/** A Job of batch/v1 that asks for the memory that the order needs. */
export function jobManifest(options: ManifestOptions): object {
  const { order, id, namespace } = options;
  const { limits, annotations, labels, scheduler } = podRequest(order, options.sharing);
  const own = { 'app.kubernetes.io/managed-by': 'plimsoll', 'plimsoll.dev/job': id };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: id, ...(namespace !== undefined && { namespace }), labels: own },
    spec: {
      // The same request would run out of memory again.
      backoffLimit: 0,
      template: {
        metadata: { labels: { ...own, ...labels }, annotations },
        spec: {
          restartPolicy: 'Never',
          ...(scheduler !== undefined && { schedulerName: scheduler }),
          containers: [
            {
              name: 'job',
              image: options.image,
              command: order.command,
              env: variablesOf(options),
              resources: { requests: limits, limits },
            },
          ],
        },
      },
    },
  };
}

function podRequest(order: ManifestOptions['order'], sharing: GpuSharing): PodRequest {
  const { gpus, needBytes } = order;
  const mebibytes = isKnown(needBytes) ? String(Math.ceil(needBytes / MiB)) : undefined;
  const none = { annotations: {}, labels: {} };
  if (gpus === 0) {
    return { ...none, limits: mebibytes === undefined ? {} : { memory: `${mebibytes}Mi` } };
  }
  const whole = { 'nvidia.com/gpu': String(gpus) };
  if (sharing === 'hami') {
    const part = mebibytes === undefined ? {} : { 'nvidia.com/gpumem': mebibytes };
    return { ...none, limits: { ...whole, ...part } };
  }
  if (sharing === 'none') return { ...none, limits: whole };
  const kai = { labels: { 'kai.scheduler/queue': 'default' }, scheduler: 'kai-scheduler' };
  if (mebibytes === undefined) return { ...kai, limits: whole, annotations: {} };
  const several = gpus > 1 ? { 'gpu-fraction-num-devices': String(gpus) } : {};
  return { ...kai, limits: {}, annotations: { 'gpu-memory': mebibytes, ...several } };
}

/** By the first three the exporter knows the job; the SDK in the process keeps to the limit. */
function variablesOf({ order, id, environment }: ManifestOptions) {
  const all = {
    ...environment,
    PLIMSOLL_JOB_ENGINE: 'kubernetes',
    PLIMSOLL_JOB_ID: id,
    PLIMSOLL_JOB_NAME: order.name,
    ...(isKnown(order.needBytes) && { PLIMSOLL_MEMORY_BYTES: String(order.needBytes) }),
  };
  return Object.entries(all).map(([name, value]) => ({ name, value }));
}

/** Names of Kubernetes have 63 characters at most; a suffix makes this one unique. */
const longestName = 50;

/**
 * A name that Kubernetes takes.
 *
 * @example
 * jobName('Train_1.py', '3f2a9c'); // 'train-1-py-3f2a9c'
 */
export function jobName(name: string, suffix: string): string {
  const plain = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, longestName)
    .replaceAll(/^-+|-+$/g, '');
  return `${plain === '' ? 'job' : plain}-${suffix}`;
}
