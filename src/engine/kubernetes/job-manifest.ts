import type { ClusterOrder } from '../cluster.js';
import { hostRequest, type StatedHost } from './host-request.js';
import { type GpuSharing, podRequest, type Texts } from './pod-request.js';
import { asWritten, type Supervision, supervisedCommand } from './supervised-command.js';

/** How a job is to be written, whichever it is. */
export interface ManifestStyle {
  readonly image: string;
  /** The one that kubectl uses where it is left out. */
  readonly namespace?: string | undefined;
  readonly sharing: GpuSharing;
  readonly supervision: Supervision;
  /** Of the host, beside the GPUs. */
  readonly host: StatedHost;
  /** Of the program. */
  readonly environment: Texts;
}

export type ManifestOrder = Pick<
  ClusterOrder,
  'name' | 'command' | 'gpus' | 'needBytes' | 'basis' | 'batch'
>;

/** By these our jobs and their pods are found. */
export const ownLabel = 'app.kubernetes.io/managed-by';
export const jobLabel = 'plimsoll.dev/job';
/** What was ordered, for those who look at the job later. */
export const orderAnnotation = 'plimsoll.dev/order';
export const containerName = 'job';

/** A Job of batch/v1 that asks for the memory that the order needs. */
export function jobManifest(order: ManifestOrder, id: string, style: ManifestStyle): object {
  const { namespace, image, environment } = style;
  const request = podRequest(order, style.sharing);
  const { limits, annotations, labels, scheduler, limitBytes } = request;
  const own = { [ownLabel]: 'plimsoll', [jobLabel]: id };
  const { name, command, gpus, needBytes, basis } = order;
  const kept = JSON.stringify({ name, command, gpus, needBytes, basis, limitBytes });
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: id,
      ...(namespace !== undefined && { namespace }),
      labels: own,
      annotations: { [orderAnnotation]: kept },
    },
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
              name: containerName,
              image,
              command: supervisedCommand(order, style.supervision),
              env: variablesOf(order, id, environment, limitBytes),
              resources: { requests: { ...hostRequest(order, style.host), ...limits }, limits },
            },
          ],
        },
      },
    },
  };
}

/** By the first three the exporter knows the job; the SDK in the process keeps to the limit. */
function variablesOf(
  order: ManifestOrder,
  id: string,
  environment: Texts,
  limitBytes: number | 'none',
): readonly { readonly name: string; readonly value: string }[] {
  const all = {
    ...environment,
    PLIMSOLL_JOB_ENGINE: 'kubernetes',
    PLIMSOLL_JOB_ID: id,
    PLIMSOLL_JOB_NAME: order.name,
    ...(limitBytes !== 'none' && { PLIMSOLL_MEMORY_BYTES: String(limitBytes) }),
  };
  return Object.entries(all).map(([name, value]) => ({ name, value: asWritten(value) }));
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

/** Whether a job can have this name: what Kubernetes takes as the value of a label. */
export function isJobName(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text);
}
