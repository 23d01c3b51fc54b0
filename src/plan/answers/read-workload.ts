import { type EstimateMethod, estimateMethods } from '../../estimate/estimate.js';
import { modelSizes, modelTypes } from '../../estimate/model-source.js';
import {
  keptResults,
  optimizers,
  precisions,
  quantizationPresets,
  type Workload,
} from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { checkArguments, object } from '../../units/arguments.js';
import { nearest } from '../../units/words.js';
import { offloads, zeroStages } from '../fit/types.js';
import type { OpenWorkload } from './plan-input.js';
import {
  checkParallel,
  type FieldReader,
  oneOf,
  parallelFields,
  readArguments,
  readByteCount,
  readCount,
  readFlag,
  readGpus,
  readParameters,
  readText,
} from './read-parallel.js';
import { type NamedSource, sourceOf } from './source-of.js';
import type { RequestField, RequestWording } from './wording.js';
import type { PlanAnswerRequest } from './workload-request.js';

export const workloadModes = ['train', 'infer'] as const satisfies readonly Workload['mode'][];

/** What a request asks for: which model, run how; the card as it was named. */
export interface ReadWorkload {
  readonly source: NamedSource;
  readonly workload: OpenWorkload;
  readonly gpu?: string | undefined;
  readonly method: EstimateMethod;
}

const workloadFields = [
  'model',
  'script',
  'args',
  'type',
  'size',
  'parameters',
  'mode',
  'batch',
  'seq',
  'image',
  'targetSeq',
  'keep',
  'precision',
  'optimizer',
  'accumulation',
  'checkpointing',
  'lora',
  'quantization',
  'gpu',
  'method',
  'gpus',
  'offload',
] as const satisfies readonly RequestField[];

/** Only a plan takes these. */
const planFields = [
  'memoryBytes',
  'allocatorMemoryBytes',
  'maxBatch',
  'zero',
] as const satisfies readonly RequestField[];

/** A request with every value checked. */
export type CheckedRequest = ReturnType<typeof checkRequest>;

/**
 * Checks a request that came from outside: each wrong value is a `Failure` that names the field
 * and what it takes; an unknown field is one, too.
 *
 * @example
 * checkRequest({ model: '/models/gpt2', batch: 8 }, fieldWording, 'estimate').batch; // 8
 */
export function checkRequest(
  request: PlanAnswerRequest,
  wording: RequestWording,
  purpose: 'estimate' | 'plan',
) {
  checkArguments(
    `an ${purpose === 'plan' ? 'answer with a plan' : 'estimate'}`,
    { request },
    { request: object },
  );
  refuseUnknown(request, purpose);
  const read = <T>(field: RequestField, reader: FieldReader<T>): T | undefined => {
    const value = request[field];
    // JSON has no other word for what is not there.
    return value === undefined || value === null ? undefined : reader(value, field, wording);
  };
  return {
    model: read('model', readText),
    script: read('script', readText),
    args: read('args', readArguments),
    type: read('type', oneOf(modelTypes)),
    size: read('size', oneOf(modelSizes)),
    parameters: read('parameters', readParameters),
    mode: read('mode', oneOf(workloadModes)),
    batch: read('batch', readCount),
    seq: read('seq', readCount),
    image: read('image', readCount),
    targetSeq: read('targetSeq', readCount),
    keep: read('keep', oneOf(keptResults)),
    precision: read('precision', oneOf(precisions)),
    optimizer: read('optimizer', oneOf(optimizers)),
    accumulation: read('accumulation', readCount),
    checkpointing: read('checkpointing', readFlag),
    lora: read('lora', readCount),
    quantization: read('quantization', oneOf(quantizationPresets)),
    gpu: read('gpu', readText),
    method: read('method', oneOf(estimateMethods)),
    memoryBytes: read('memoryBytes', readByteCount),
    allocatorMemoryBytes: read('allocatorMemoryBytes', readByteCount),
    gpus: read('gpus', readGpus),
    maxBatch: read('maxBatch', readFlag),
    zero: read('zero', oneOf(zeroStages)),
    offload: read('offload', oneOf(offloads)),
    ...checkParallel(read),
  };
}

/** Which model, run how. */
export function readWorkload(checked: CheckedRequest, wording: RequestWording): ReadWorkload {
  const { gpu, method = 'auto' } = checked;
  return { source: sourceOf(checked, wording), workload: openWorkload(checked), gpu, method };
}

function openWorkload(checked: CheckedRequest): OpenWorkload {
  const { mode, batch, seq, image, precision, optimizer, checkpointing } = checked;
  const { lora, quantization, targetSeq, keep, accumulation } = checked;
  const all = {
    mode,
    batch,
    sequence: seq,
    image,
    targetSequence: targetSeq,
    keep,
    precision,
    optimizer,
    accumulation,
    checkpointing,
    loraRank: lora,
    quantization,
  };
  // Absent, not undefined: what is spread over defaults must leave them alone.
  const present = Object.entries(all).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present);
}

function refuseUnknown(request: object, purpose: 'estimate' | 'plan'): void {
  const known: readonly string[] =
    purpose === 'plan'
      ? [...workloadFields, ...planFields]
      : [...workloadFields, ...parallelFields];
  const field = Object.keys(request).find((one) => !known.includes(one));
  if (field === undefined) return;
  const meant = nearest(field.slice(0, 100), known);
  throw new Failure({
    kind: 'input',
    code: 'unknown-field',
    fact: `A workload has no "${field.slice(0, 100)}".`,
    next: meant === undefined ? `It has ${known.join(', ')}.` : `Did you mean "${meant}"?`,
  });
}
