import { type QuantizationPreset, quantizationPresets } from '../../estimate/types.js';
import type { ComputeDtype, QuantizationMemory } from './bits-and-bytes.js';

/** How a model is to be loaded, as it was chosen once. */
export interface SavedQuantization {
  readonly model: string;
  readonly preset: QuantizationPreset;
  readonly forTraining: boolean;
  readonly computeDtype: ComputeDtype;
  readonly memory: QuantizationMemory;
}

/** Raised when the shape of the file changes. */
const schema = 1;

/** A saved choice has some hundred bytes; the longest model name is a path. */
export const savedLimits = {
  fileBytes: 64 * 1024,
  modelLength: 4096,
  /** More GPUs than one machine has. */
  gpus: 1024,
} as const;

export function toJson({ model, preset, forTraining, computeDtype, memory }: SavedQuantization) {
  const { gpuBytes, hostBytes } = memory;
  const document = {
    schema,
    model,
    preset,
    forTraining,
    computeDtype,
    memory: { gpuBytes, hostBytes },
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** The choice that a text holds, or in words what is wrong with it. Nothing in it is trusted. */
export function fromJson(text: string): SavedQuantization | string {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return 'it is not JSON';
  }
  if (!isObject(document)) return 'it is not an object';
  const { schema: version, model, preset, forTraining, computeDtype, memory, ...others } = document;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `it has a key that means nothing, "${unknown.slice(0, 40)}"`;
  if (version !== schema) return `its schema is not ${schema}`;
  if (typeof model !== 'string' || model === '' || model.length > savedLimits.modelLength) {
    return `model must be a text of 1 to ${savedLimits.modelLength} letters`;
  }
  const known = quantizationPresets.find((one) => one === preset);
  if (known === undefined) return `preset must be one of ${quantizationPresets.join(', ')}`;
  if (typeof forTraining !== 'boolean') return 'forTraining must be true or false';
  if (computeDtype !== 'bfloat16' && computeDtype !== 'float16') {
    return 'computeDtype must be bfloat16 or float16';
  }
  const sizes = memoryOf(memory);
  if (sizes === undefined)
    return 'memory must hold gpuBytes, a list, and hostBytes, in whole bytes';
  return { model, preset: known, forTraining, computeDtype, memory: sizes };
}

function memoryOf(value: unknown): QuantizationMemory | undefined {
  if (!isObject(value)) return undefined;
  const { gpuBytes, hostBytes, ...others } = value;
  if (Object.keys(others).length > 0 || !isSize(hostBytes)) return undefined;
  if (!Array.isArray(gpuBytes) || gpuBytes.length > savedLimits.gpus) return undefined;
  const sizes: readonly unknown[] = gpuBytes;
  return sizes.every(isSize) ? { gpuBytes: [...sizes], hostBytes } : undefined;
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
