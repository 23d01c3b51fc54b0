import { Failure } from '../../../failure.js';
import type { WorkloadRequest } from '../../../plan/answers/workload-request.js';
import { type JsonObject, objectIn } from '../../json-values.js';
import type { GpuSharing } from '../pod-request.js';
import { estimateAnnotation, readEstimate } from './pod-estimate.js';
import { type PodPatch, placeIn, podPatch } from './pod-patch.js';
import { type Review, reviewVersion } from './review.js';

export interface AdmissionRules {
  readonly sharing: GpuSharing;
  /** Refuses annotated pods that cannot be understood, instead of letting them through unchanged. */
  readonly strict: boolean;
  /** What a workload needs on each GPU. */
  readonly estimate: (request: WorkloadRequest) => Promise<number>;
  /** A fault of ours. */
  readonly fault: (error: unknown) => void;
}

/** Longer ones are cut off by the API server. */
const longestWarning = 250;

/** The AdmissionReview that answers: the pod as it is, or with what its memory needs. */
export async function answerReview(review: Review, rules: AdmissionRules): Promise<object> {
  const { uid, pod, namespace } = review;
  if (pod === undefined) return answer(uid, {});
  try {
    const { steps, warnings } = await patchOf(pod, namespace, rules);
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
    const code = error instanceof Failure ? 400 : 500;
    return answer(uid, { allowed: false, status: { code, message: `plimsoll: ${said}` } });
  }
}

async function patchOf(
  pod: JsonObject,
  namespace: string,
  rules: AdmissionRules,
): Promise<PodPatch> {
  const annotations = objectIn(objectIn(pod['metadata'])['annotations']);
  const text = annotations[estimateAnnotation];
  if (text === undefined) return { steps: [], warnings: [] };
  const asked = readEstimate(typeof text === 'string' ? text : JSON.stringify(text));
  const place = placeIn(pod);
  const needBytes = asked.kind === 'stated' ? asked.bytes : await rules.estimate(asked.request);
  const basis = asked.kind === 'stated' ? 'stated' : 'estimated';
  const need = { gpus: place.gpus, needBytes, basis, namespace };
  return podPatch(pod, place, need, rules.sharing);
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
