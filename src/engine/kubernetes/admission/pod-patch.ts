import { Failure } from '../../../failure.js';
import { amountIn, type JsonObject, objectIn, objectsIn, textIn } from '../../json-values.js';
import { hostRequest } from '../host-request.js';
import {
  type GpuSharing,
  gpuResource,
  kaiMemory,
  type PodNeed,
  type PodRequest,
  podRequest,
  type Texts,
} from '../pod-request.js';

/** One step of a JSON Patch. */
export interface PatchStep {
  readonly op: 'add';
  readonly path: string;
  readonly value: unknown;
}

export interface PodPatch {
  readonly steps: readonly PatchStep[];
  /** What the pod states itself, and keeps. */
  readonly warnings: readonly string[];
}

/** On a pod: how many GPUs it needs, and which of its containers is meant. */
const gpusAnnotation = 'plimsoll.dev/gpus';
const containerAnnotation = 'plimsoll.dev/container';
/** More than any node has. */
const maxGpus = 1024;

/** A container that memory is written into, and how many GPUs it has. */
export interface PodPlace {
  readonly index: number;
  readonly container: JsonObject;
  readonly gpus: number;
}

/** The container that was named, else the first with a GPU, else the first. */
export function placeIn(pod: JsonObject): PodPlace {
  const containers = objectsIn(objectIn(pod['spec'])['containers']);
  const annotations = objectIn(objectIn(pod['metadata'])['annotations']);
  const named = annotations[containerAnnotation];
  const withGpu = containers.findIndex((one) => limitsOf(one)[gpuResource] !== undefined);
  const index =
    named === undefined ? Math.max(0, withGpu) : containers.findIndex(({ name }) => name === named);
  const container = containers[index];
  if (container === undefined) {
    throw badPod(
      named === undefined
        ? 'It has no container.'
        : `It has no container ${JSON.stringify(named).slice(0, 80)}.`,
    );
  }
  const gpus = amountIn(limitsOf(container)[gpuResource] ?? annotations[gpusAnnotation] ?? '1');
  const count = /^\d{1,4}$/.test(gpus) ? Number(gpus) : Number.NaN;
  if (!(count <= maxGpus)) throw badPod(`"${gpus.slice(0, 80)}" is not a number of GPUs.`);
  return { index, container, gpus: count };
}

/** What makes a pod ask for its memory as `submit --engine kubernetes` does. What it states itself stays. */
export function podPatch(
  pod: JsonObject,
  { index, container }: PodPlace,
  need: PodNeed & { readonly basis: string; readonly namespace: string },
  sharing: GpuSharing,
): PodPatch {
  const own = limitsOf(container);
  if (sharing === 'kai' && own[gpuResource] !== undefined) {
    return { steps: [], warnings: [keepsWholeGpus] };
  }
  const request = podRequest(need, sharing);
  const metadata = objectIn(pod['metadata']);
  const steps = [
    ...added(metadata['annotations'], '/metadata/annotations', {
      'plimsoll.dev/need-bytes': String(need.needBytes),
      'plimsoll.dev/basis': need.basis,
      ...request.annotations,
    }),
    ...added(metadata['labels'], '/metadata/labels', request.labels),
    ...schedulerStep(pod, request),
    ...resourceStep(container, index, need, request),
    ...environmentStep(container, index, {
      ...ownerOf(metadata, need.namespace),
      ...limitOf(request),
    }),
  ];
  const stated = { ...objectIn(metadata['annotations']), ...own };
  const kept = Object.entries({ ...request.limits, ...request.annotations }).filter(
    ([name, value]) => stated[name] !== undefined && amountIn(stated[name]) !== value,
  );
  return {
    steps,
    warnings: kept.map(
      ([name, value]) =>
        `${name} stays ${amountIn(stated[name]).slice(0, 40)}; the estimate says ${value}`,
    ),
  };
}

const keepsWholeGpus = `it asks for ${gpuResource} and keeps it; KAI shares a GPU where only ${kaiMemory} is asked for`;

/** Those that are missing; all of them at once where there are none. */
function added(there: unknown, path: string, wanted: Texts): readonly PatchStep[] {
  const present = objectIn(there);
  const missing = Object.entries(wanted).filter(([name]) => present[name] === undefined);
  if (missing.length === 0) return [];
  if (there === undefined || there === null) {
    return [{ op: 'add', path, value: Object.fromEntries(missing) }];
  }
  return missing.map(([name, value]) => ({ op: 'add', path: `${path}/${pointer(name)}`, value }));
}

/** As RFC 6901 wants a name inside of a path. */
function pointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The API server has written the default before it asks. */
function schedulerStep(pod: JsonObject, { scheduler }: PodRequest): readonly PatchStep[] {
  const named = textIn(objectIn(pod['spec'])['schedulerName']);
  if (scheduler === undefined || !['', 'default-scheduler'].includes(named)) return [];
  return [{ op: 'add', path: '/spec/schedulerName', value: scheduler }];
}

function resourceStep(
  container: JsonObject,
  index: number,
  need: PodNeed,
  { limits: wanted }: PodRequest,
): readonly PatchStep[] {
  const resources = objectIn(container['resources']);
  const limits = { ...wanted, ...objectIn(resources['limits']) };
  // A request above a limit that the pod states would be refused.
  const host = Object.entries(hostRequest(need, {})).filter(([name]) => !(name in limits));
  const bound = Object.keys(wanted).map((name) => [name, limits[name]]);
  const requests = {
    ...Object.fromEntries([...host, ...bound]),
    ...objectIn(resources['requests']),
  };
  const value = { ...resources, limits, requests };
  if (isSame(value, resources)) return [];
  return [{ op: 'add', path: `/spec/containers/${index}/resources`, value }];
}

function environmentStep(
  container: JsonObject,
  index: number,
  wanted: Texts,
): readonly PatchStep[] {
  const there = objectsIn(container['env']);
  const names = new Set(there.map(({ name }) => name));
  const missing = Object.entries(wanted).filter(([name]) => !names.has(name));
  if (missing.length === 0) return [];
  const value = [...there, ...missing.map(([name, text]) => ({ name, value: text }))];
  return [{ op: 'add', path: `/spec/containers/${index}/env`, value }];
}

function limitOf({ limitBytes }: PodRequest): Texts {
  return limitBytes === 'none' ? {} : { PLIMSOLL_MEMORY_BYTES: String(limitBytes) };
}

/** Pods of one Job or training belong together; the exporter knows them by these. */
function ownerOf({ ownerReferences }: JsonObject, namespace: string): Texts {
  const owner = objectsIn(ownerReferences).find(({ controller }) => controller === true);
  const name = textIn(owner?.['name']);
  if (name === '') return {};
  return {
    PLIMSOLL_JOB_ENGINE: 'kubernetes',
    PLIMSOLL_JOB_ID: `${namespace}/${name}`,
    PLIMSOLL_JOB_NAME: name,
  };
}

function limitsOf(container: JsonObject): JsonObject {
  return objectIn(objectIn(container['resources'])['limits']);
}

/** Whatever the order of its fields. */
function isSame(one: JsonObject, other: JsonObject): boolean {
  return ['limits', 'requests'].every((part) => {
    const [a, b] = [objectIn(one[part]), objectIn(other[part])];
    const names = new Set([...Object.keys(a), ...Object.keys(b)]);
    return [...names].every((name) => a[name] === b[name]);
  });
}

function badPod(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-pod',
    fact,
    next: `See ${gpusAnnotation} and ${containerAnnotation} in docs/kubernetes.md.`,
  });
}
