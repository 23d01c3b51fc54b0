import type { ClusterAttempt, ClusterJob, ClusterOrder, ClusterState } from '../cluster.js';
import { amountIn, type JsonObject, objectIn, objectsIn, textIn } from '../job-folder.js';
import {
  asWritten,
  type GpuSharing,
  hostRequest,
  kaiMemory,
  type PodRequest,
  podRequest,
  type StatedHost,
  type Supervision,
  sdkVariables,
  supervisedCommand,
  type Texts,
} from './pod-request.js';

/** Marks a job that was cancelled, since Kubernetes only says that its time was over. */
export const cancelledAnnotation = 'plimsoll.dev/cancelled';

/** Jobs with their pods, from a list that has both; the newest first. */
export function jobViews(objects: readonly unknown[]): readonly ClusterJob[] {
  const all = objects.map(objectIn);
  const pods = all.filter(({ kind }) => kind === 'Pod');
  return all
    .filter(({ kind }) => kind === 'Job')
    .map((job) => jobView(job, podsOf(job, pods)))
    .toSorted((one, other) => other.submittedAt.localeCompare(one.submittedAt));
}

/** Those of one job, the oldest first. */
function podsOf(job: JsonObject, pods: readonly JsonObject[]): readonly JsonObject[] {
  const id = labelOf(job, jobLabel);
  return pods
    .filter((pod) => id !== '' && labelOf(pod, jobLabel) === id)
    .toSorted((one, other) => createdAt(one).localeCompare(createdAt(other)));
}

/** A job of batch/v1 and its pods, as Kubernetes describes them; any part may be missing. */
export function jobView(job: JsonObject, pods: readonly JsonObject[]): ClusterJob {
  const metadata = objectIn(job['metadata']);
  const order = keptOrder(textIn(objectIn(metadata['annotations'])[orderAnnotation]));
  const { state, why } = standingOf(job, pods.at(-1));
  const request = requestWords(objectIn(objectIn(job['spec'])['template']));
  const attempts = pods.length === 0 ? [undefined] : pods;
  return {
    engine: 'kubernetes',
    id: textIn(metadata['name']),
    name: textIn(order['name']),
    command: Array.isArray(order['command']) ? order['command'].map(textIn) : [],
    state,
    why,
    gpus: wholeNumber(order['gpus']) ?? 0,
    needBytes: wholeNumber(order['needBytes']) ?? 'unknown',
    basis: textIn(order['basis']),
    nodes: [...new Set(pods.map((pod) => textIn(objectIn(pod['spec'])['nodeName'])))]
      .filter((name) => name !== '')
      .join(),
    submittedAt: textIn(metadata['creationTimestamp']),
    attempts: attempts.map((pod, index) =>
      attemptOf(pod, {
        number: index + 1,
        request,
        reservedBytes: wholeNumber(order['limitBytes']) ?? 'unknown',
      }),
    ),
    notes: [],
    tasks: null,
  };
}

/** Reads the order from the manifest. */
function keptOrder(text: string): JsonObject {
  try {
    return objectIn(JSON.parse(text));
  } catch {
    return {};
  }
}

interface Standing {
  readonly state: ClusterState;
  readonly why: string;
}

function standingOf(job: JsonObject, pod: JsonObject | undefined): Standing {
  const { suspend } = objectIn(job['spec']);
  const annotations = objectIn(objectIn(job['metadata'])['annotations']);
  const isCancelled = annotations[cancelledAnnotation] !== undefined;
  const conditions = objectsIn(objectIn(job['status'])['conditions']);
  const is = (type: string) => conditions.find((one) => one['type'] === type && holds(one));
  if (is('Complete') !== undefined) return { state: 'succeeded', why: '' };
  const failed = is('Failed');
  if (failed !== undefined) {
    return isCancelled
      ? { state: 'cancelled', why: '' }
      : { state: 'failed', why: endWords(pod) || reasonWords(failed) };
  }
  const status = objectIn(pod?.['status']);
  const phase = textIn(status['phase']);
  if (isCancelled) return { state: 'cancelled', why: phase === 'Running' ? 'it is ending' : '' };
  if (phase === 'Running') return { state: 'running', why: '' };
  // The controller of jobs has not looked at the end of its pod yet.
  if (phase === 'Succeeded' || phase === 'Failed') return { state: 'running', why: 'it is ending' };
  if (suspend === true) return { state: 'waiting', why: 'suspended' };
  return { state: 'waiting', why: waitWords(status) };
}

function holds({ status }: JsonObject): boolean {
  return status === 'True';
}

/** In the scheduler's words, or in those of the node that prepares its container. */
function waitWords(status: JsonObject): string {
  const scheduled = objectsIn(status['conditions']).find(({ type }) => type === 'PodScheduled');
  if (scheduled !== undefined && !holds(scheduled)) return reasonWords(scheduled);
  const waiting = objectIn(objectIn(containerStatus(status)['state'])['waiting']);
  return reasonWords(waiting);
}

/** Longer texts of Kubernetes say the same of each node. */
const longestWhy = 300;

function reasonWords({ reason, message }: JsonObject): string {
  const parts = [textIn(reason), textIn(message)].filter((text) => text !== '');
  return parts.join(': ').slice(0, longestWhy);
}

function endWords(pod: JsonObject | undefined): string {
  const terminated = terminatedOf(pod);
  const code = wholeNumber(terminated['exitCode']);
  if (code === undefined) return '';
  const reason = textIn(terminated['reason']);
  return reason === 'OOMKilled' ? `OOMKilled: host memory, exit code ${code}` : `exit code ${code}`;
}

function attemptOf(
  pod: JsonObject | undefined,
  asked: Pick<ClusterAttempt, 'number' | 'request' | 'reservedBytes'>,
): ClusterAttempt {
  const terminated = terminatedOf(pod);
  const name = textIn(objectIn(pod?.['metadata'])['name']);
  return {
    ...asked,
    clusterId: name === '' ? 'unknown' : name,
    peakBytes: 'unknown',
    outOfMemory: terminated['reason'] === 'OOMKilled',
    exitCode: wholeNumber(terminated['exitCode']) ?? 'unknown',
  };
}

function terminatedOf(pod: JsonObject | undefined): JsonObject {
  return objectIn(objectIn(containerStatus(objectIn(pod?.['status']))['state'])['terminated']);
}

/** Our pods have one container. */
function containerStatus(status: JsonObject): JsonObject {
  return objectsIn(status['containerStatuses'])[0] ?? {};
}

/** A pod that may have printed something. */
export interface BegunPod {
  readonly name: string;
  /** Its container has ended: it prints nothing more. */
  readonly isOver: boolean;
}

/** The oldest first. */
export function begunPods(objects: readonly unknown[]): readonly BegunPod[] {
  const pods = objects.map(objectIn).filter(({ kind }) => kind === 'Pod');
  return pods
    .toSorted((one, other) => createdAt(one).localeCompare(createdAt(other)))
    .flatMap((pod) => {
      const { running, terminated } = objectIn(containerStatus(objectIn(pod['status']))['state']);
      if (running === undefined && terminated === undefined) return [];
      const name = textIn(objectIn(pod['metadata'])['name']);
      return [{ name, isOver: terminated !== undefined }];
    });
}

/** In the words of the cluster: `nvidia.com/gpu=1 nvidia.com/gpumem=20480`. */
function requestWords(template: JsonObject): string {
  const container = objectsIn(objectIn(template['spec'])['containers'])[0] ?? {};
  const { requests, limits } = objectIn(container['resources']);
  const memory = objectIn(objectIn(template['metadata'])['annotations'])[kaiMemory];
  const all = {
    ...objectIn(requests),
    ...objectIn(limits),
    ...(memory !== undefined && { [kaiMemory]: memory }),
  };
  return Object.entries(all)
    .map(([name, value]) => `${name}=${amountIn(value)}`)
    .join(' ');
}

function labelOf(object: JsonObject, label: string): string {
  return textIn(objectIn(objectIn(object['metadata'])['labels'])[label]);
}

function createdAt(object: JsonObject): string {
  return textIn(objectIn(object['metadata'])['creationTimestamp']);
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

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

type ManifestOrder = Pick<
  ClusterOrder,
  'name' | 'command' | 'gpus' | 'needBytes' | 'basis' | 'batch'
>;

/** By these our jobs and their pods are found. */
export const ownLabel = 'app.kubernetes.io/managed-by';
export const jobLabel = 'plimsoll.dev/job';
/** Annotation that keeps the order for later commands. */
const orderAnnotation = 'plimsoll.dev/order';
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
              env: variablesOf(order, id, environment, request),
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
  request: PodRequest,
): readonly { readonly name: string; readonly value: string }[] {
  const all = {
    ...environment,
    PLIMSOLL_JOB_ENGINE: 'kubernetes',
    PLIMSOLL_JOB_ID: id,
    PLIMSOLL_JOB_NAME: order.name,
    ...sdkVariables(order, request),
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
