import { Failure } from '../../failure.js';
import { isModelName } from '../../plan/answers/source-of.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { parseBytes } from '../../units/bytes.js';
import { amountIn, type JsonObject, objectIn, objectsIn, textIn } from '../job-folder.js';
import {
  type GpuSharing,
  gpuResource,
  hostRequest,
  kaiMemory,
  type PodNeed,
  type PodRequest,
  podRequest,
  sdkVariables,
  type Texts,
} from './pod-request.js';

export interface AdmissionRules {
  readonly sharing: GpuSharing;
  /** Refuses annotated pods that cannot be understood, instead of letting them through unchanged. */
  readonly strict: boolean;
  /** Estimates a workload's memory on each GPU; fails if that takes longer than the given seconds. */
  readonly estimate: (request: WorkloadRequest, waitSeconds: number) => Promise<number>;
  /** A fault of ours. */
  readonly fault: (error: unknown) => void;
}

/** Longer ones are cut off by the API server. */
const longestWarning = 250;

/** The AdmissionReview that answers: the pod as it is, or with what its memory needs. */
export async function answerReview(
  review: Review,
  rules: AdmissionRules,
  waitSeconds: number,
): Promise<object> {
  const { uid, pod, namespace } = review;
  if (pod === undefined) return answer(uid, {});
  try {
    const { steps, warnings } = await patchOf(pod, namespace, rules, waitSeconds);
    return answer(uid, {
      ...(steps.length > 0 && {
        patchType: 'JSONPatch',
        patch: Buffer.from(JSON.stringify(steps)).toString('base64'),
      }),
      warnings,
    });
  } catch (error) {
    if (!(error instanceof Failure)) rules.fault(error);
    const said =
      error instanceof Failure ? `${error.fact} ${error.next}` : 'An unexpected error in plimsoll.';
    if (!rules.strict) return answer(uid, { warnings: [`${said} The pod is unchanged.`] });
    const code = statusOf(error);
    return answer(uid, { allowed: false, status: { code, message: `plimsoll: ${said}` } });
  }
}

async function patchOf(
  pod: JsonObject,
  namespace: string,
  rules: AdmissionRules,
  waitSeconds: number,
): Promise<PodPatch> {
  const annotations = objectIn(objectIn(pod['metadata'])['annotations']);
  const text = annotations[estimateAnnotation];
  if (text === undefined) return { steps: [], warnings: [] };
  const asked = readEstimate(typeof text === 'string' ? text : JSON.stringify(text));
  const place = placeIn(pod);
  const needBytes =
    asked.kind === 'stated' ? asked.bytes : await rules.estimate(asked.request, waitSeconds);
  const basis = asked.kind === 'stated' ? 'stated' : 'estimated';
  const need = { gpus: place.gpus, needBytes, basis, namespace };
  return podPatch(pod, place, need, rules.sharing);
}

/** Returns the HTTP status; a temporary error is not the pod's fault. */
function statusOf(error: unknown): number {
  if (!(error instanceof Failure)) return 500;
  return error.kind === 'interrupted' ? 503 : 400;
}

function answer(
  uid: string,
  {
    warnings = [],
    ...rest
  }: { readonly warnings?: readonly string[]; readonly [field: string]: unknown },
): object {
  const shown = warnings.map((text) => `plimsoll: ${text}`.slice(0, longestWarning));
  return {
    apiVersion: reviewVersion,
    kind: 'AdmissionReview',
    response: { uid, allowed: true, ...rest, ...(shown.length > 0 && { warnings: shown }) },
  };
}

/** The question of the API server: is this object allowed, and in which form? */
interface Review {
  /** The answer must carry the same. */
  readonly uid: string;
  /** Empty where it was not told. */
  readonly namespace: string;
  /** A pod that is being created; undefined for anything else. */
  readonly pod: JsonObject | undefined;
}

const reviewVersion = 'admission.k8s.io/v1';
/** One of Kubernetes has 36 characters. */
const longestUid = 256;

/** Reads an AdmissionReview of version v1; what is none is a `Failure`. */
export function readReview(value: unknown): Review {
  const { apiVersion, kind, request } = objectIn(value);
  if (kind !== 'AdmissionReview') throw badReview('It is not of the kind AdmissionReview.');
  if (apiVersion !== reviewVersion) {
    throw badReview(`Its apiVersion is ${words(apiVersion)}, and only ${reviewVersion} is known.`);
  }
  const asked = objectIn(request);
  const uid = textIn(asked['uid']);
  if (uid === '' || uid.length > longestUid) throw badReview('It has no request.uid.');
  const { group, kind: named } = objectIn(asked['kind']);
  const isNewPod = asked['operation'] === 'CREATE' && named === 'Pod' && (group ?? '') === '';
  const namespace = textIn(asked['namespace']);
  return { uid, namespace, pod: isNewPod ? objectIn(asked['object']) : undefined };
}

function words(value: unknown): string {
  return JSON.stringify(value ?? null).slice(0, 80);
}

function badReview(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-review',
    fact,
    next: `Set admissionReviewVersions: ["v1"] in the MutatingWebhookConfiguration.`,
  });
}

/** One step of a JSON Patch. */
interface PatchStep {
  readonly op: 'add';
  readonly path: string;
  readonly value: unknown;
}

interface PodPatch {
  readonly steps: readonly PatchStep[];
  /** Settings that the pod states itself and keeps. */
  readonly warnings: readonly string[];
}

/** On a pod: how many GPUs it needs, and which of its containers is meant. */
const gpusAnnotation = 'plimsoll.dev/gpus';
const containerAnnotation = 'plimsoll.dev/container';
/** More than any node has. */
const maxGpus = 1024;

/** A container that memory is written into, and how many GPUs it has. */
interface PodPlace {
  readonly index: number;
  readonly container: JsonObject;
  readonly gpus: number;
}

/** The container that was named, else the first with a GPU, else the first. */
function placeIn(pod: JsonObject): PodPlace {
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

/** Makes a pod ask for its memory as `submit --engine kubernetes` does. Its own settings stay. */
function podPatch(
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
      ...sdkVariables(need, request),
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

/** On a pod: a size such as `20GiB`, or a workload as `POST /estimate` takes it. */
const estimateAnnotation = 'plimsoll.dev/estimate';

/** The pod's own statement of its memory. */
type PodEstimate =
  | { readonly kind: 'stated'; readonly bytes: number }
  | { readonly kind: 'workload'; readonly request: WorkloadRequest };

/** A workload with all its fields takes some 500. */
const longestText = 4096;

/**
 * Reads the annotation. Files of this machine are not for pods to name, and tracing takes longer than
 * the API server waits: a model has a name, or a number of parameters, and formulas answer.
 *
 * @example
 * readEstimate('{"model": "gpt2", "batch": 8, "seq": 1024}').kind; // 'workload'
 */
function readEstimate(text: string): PodEstimate {
  if (text.length > longestText) throw badEstimate(`It has more than ${longestText} characters.`);
  if (!text.trimStart().startsWith('{')) return { kind: 'stated', bytes: sizeIn(text) };
  const request = workloadIn(text);
  const { model, script, method } = request;
  if (script !== undefined) throw badEstimate('It names a script.');
  if (typeof model === 'string' && !isModelName(model)) {
    throw badEstimate(`"${model.slice(0, 80)}" is not the name of a model.`);
  }
  if (method !== undefined && method !== 'formula') throw badEstimate('Its method is not formula.');
  return { kind: 'workload', request: { ...request, method: 'formula' } };
}

function sizeIn(text: string): number {
  try {
    const bytes = parseBytes(text.trim());
    if (bytes > 0) return bytes;
  } catch {
    // Told below.
  }
  throw badEstimate(`"${text.slice(0, 80)}" is neither a size nor JSON.`);
}

/** Each of its values is checked where it is estimated. */
function workloadIn(text: string): WorkloadRequest {
  try {
    const request: WorkloadRequest = JSON.parse(text);
    return request;
  } catch {
    throw badEstimate('It is not JSON.');
  }
}

function badEstimate(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-annotation',
    fact: `${estimateAnnotation}: ${fact}`,
    next: 'Write a size such as 20GiB, or JSON such as {"model": "gpt2", "batch": 8, "seq": 1024}.',
  });
}
