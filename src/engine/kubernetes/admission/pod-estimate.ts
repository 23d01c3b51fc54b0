import { Failure } from '../../../failure.js';
import { isModelName } from '../../../plan/answers/source-of.js';
import type { WorkloadRequest } from '../../../plan/answers/workload-request.js';
import { parseBytes } from '../../../units/bytes.js';

/** On a pod: a size such as `20GiB`, or a workload as `POST /estimate` takes it. */
export const estimateAnnotation = 'plimsoll.dev/estimate';

/** What a pod says of its memory. */
export type PodEstimate =
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
export function readEstimate(text: string): PodEstimate {
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
