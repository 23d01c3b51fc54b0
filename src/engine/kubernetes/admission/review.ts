import { Failure } from '../../../failure.js';
import { type JsonObject, objectIn, textIn } from '../../json-values.js';

/** What the API server asks: may this object be stored, and as what? */
export interface Review {
  /** The answer must carry the same. */
  readonly uid: string;
  /** Empty where it was not told. */
  readonly namespace: string;
  /** A pod that is being created; undefined for anything else. */
  readonly pod: JsonObject | undefined;
}

export const reviewVersion = 'admission.k8s.io/v1';
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
