import { isAbsolute } from 'node:path';
import {
  type CacheType,
  cacheTypes,
  type Generating,
  type WeightType,
  weightTypes,
} from '../../../estimate/serving/kv-cache.js';
import { engines, type ServeEngine } from '../../../estimate/serving/serve-estimate.js';
import { type QuantizationPreset, quantizationPresets } from '../../../estimate/types.js';
import { Failure } from '../../../failure.js';
import { type FieldReader, oneOf, readCount, readShare, readText } from '../read-parallel.js';
import type { RequestField, RequestWording } from '../wording.js';
import type { WorkloadRequest } from '../workload-request.js';

/** Modes beside `train` and `infer`: text is written, or requests are answered. */
export const servingModes = ['generate', 'serve'] as const;

export const cacheTypeNames = Object.keys(cacheTypes).filter(
  (name): name is CacheType => name in cacheTypes,
);

/** The methods that a calculation and a trace can be asked for. */
const methods = ['auto', 'trace', 'formula'] as const;

interface OfModel {
  readonly model: string;
  readonly gpu: string | undefined;
}

export interface GenerateAsked extends OfModel, Generating {
  readonly mode: 'generate';
  readonly method: (typeof methods)[number];
}

/** A request for a server; absent fields follow from the model. */
export interface ServeAsked extends OfModel {
  readonly mode: 'serve';
  readonly engine: ServeEngine | undefined;
  readonly maxModelLen: number | undefined;
  readonly utilization: number | undefined;
  readonly precision: WeightType | undefined;
  readonly kvPrecision: CacheType | undefined;
  readonly quantization: QuantizationPreset | undefined;
}

const shared = ['model', 'mode', 'gpu', 'precision'] as const satisfies readonly RequestField[];
const fieldsOf = {
  generate: [...shared, 'batch', 'prompt', 'new', 'beams', 'method'],
  serve: [
    ...shared,
    'engine',
    'maxModelLen',
    'gpuMemoryUtilization',
    'kvPrecision',
    'quantization',
  ],
} as const satisfies Readonly<Record<string, readonly RequestField[]>>;

/** Whether a request is for one of these modes. */
export function isServing({ mode }: WorkloadRequest): boolean {
  return servingModes.some((one) => one === mode);
}

/** Checks each field; what is wrong, or of no use in that mode, is a `Failure` that names it. */
export function readServing(
  request: WorkloadRequest,
  wording: RequestWording,
): GenerateAsked | ServeAsked {
  const mode = request.mode === 'serve' ? 'serve' : 'generate';
  const read = <T>(field: keyof WorkloadRequest, reader: FieldReader<T>): T | undefined => {
    const value = request[field];
    return value === undefined || value === null ? undefined : reader(value, field, wording);
  };
  refuseOthers(request, mode, wording);
  const model = read('model', readText);
  if (model === undefined) throw needed('model', 'Name a config.json, or a folder.', wording);
  if (!isAbsolute(model)) throw needed('model', 'Give its path from / on.', wording);
  const gpu = read('gpu', readText);
  const precision = read('precision', oneOf(weightTypes));
  if (mode === 'serve') {
    return {
      mode,
      model,
      gpu,
      precision,
      engine: read('engine', oneOf(engines)),
      maxModelLen: read('maxModelLen', readCount),
      utilization: read('gpuMemoryUtilization', readShare),
      kvPrecision: read('kvPrecision', oneOf(cacheTypeNames)),
      quantization: read('quantization', oneOf(quantizationPresets)),
    };
  }
  const count = (field: keyof WorkloadRequest, what: string): number => {
    const value = read(field, readCount);
    if (value === undefined) throw needed(field, `Say ${what}.`, wording);
    return value;
  };
  return {
    mode,
    model,
    gpu,
    precision: precision ?? 'bf16',
    batch: count('batch', 'how many texts are written at once'),
    prompt: count('prompt', 'how many tokens each of them begins with'),
    newTokens: count('new', 'how many tokens are written'),
    beams: read('beams', readCount) ?? 1,
    method: read('method', oneOf(methods)) ?? 'auto',
  };
}

function refuseOthers(
  request: WorkloadRequest,
  mode: 'generate' | 'serve',
  wording: RequestWording,
): void {
  const known: readonly string[] = fieldsOf[mode];
  const other = Object.entries(request).find(
    ([field, value]) => value !== undefined && value !== null && !known.includes(field),
  )?.[0];
  if (other === undefined) return;
  const names: readonly RequestField[] = fieldsOf[mode];
  throw new Failure({
    kind: 'input',
    code: 'unknown-field',
    fact: `With the mode "${mode}" there is no "${other.slice(0, 100)}".`,
    next: `It takes ${names.map((name) => wording.name(name)).join(', ')}.`,
  });
}

function needed(field: RequestField, next: string, wording: RequestWording): Failure {
  const fact = `No usable ${wording.name(field)} was given.`;
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next, field });
}
