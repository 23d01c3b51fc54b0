import type { Wording } from '../../estimate/wording.js';
import { formatBytes } from '../../units/bytes.js';
import type { PlanAnswerRequest } from './workload-request.js';

/** Something a request may hold. */
export type RequestField = keyof PlanAnswerRequest;

/** How errors and notes name any field of a request. */
export interface RequestWording extends Wording<RequestField> {
  /** How else a model can be given than by its name or its path: `give --parameters`. */
  readonly otherModels?: string | undefined;
  /** The way to name a program rather than a model: `plimsoll estimate -- python train.py`. */
  readonly program?: string | undefined;
}

/** For those who send JSON. */
export const fieldWording: RequestWording = {
  name: (field) => `"${field}"`,
  example: (field, value) => `${JSON.stringify(field)}: ${JSON.stringify(value)}`,
  anotherPython: 'have the server started with another',
  otherModels: 'give "parameters"',
};

/** The fields of the dashboard's forms, as they stand above them. */
export const formLabels = {
  model: 'Model',
  mode: 'For',
  batch: 'Batch',
  seq: 'Tokens of a sequence',
  image: "Pixels of an image's edge",
  keep: 'Kept until the next step',
  precision: 'Precision',
  optimizer: 'Optimizer',
  checkpointing: 'Checkpointing',
  lora: 'LoRA rank',
  quantization: 'Quantization',
  gpu: 'Card',
  method: 'Method',
  memoryBytes: 'Memory',
  gpus: 'Devices',
  maxBatch: 'Answer',
  prompt: 'Tokens of a prompt',
  new: 'Tokens that are written',
  beams: 'Beams',
  engine: 'Engine',
  maxModelLen: 'Tokens of the longest request',
  gpuMemoryUtilization: 'Share that vLLM takes',
  kvPrecision: 'Cache in',
} as const satisfies Partial<Record<RequestField, string>>;

/** Choices of the forms that have other names than in a request. */
export const formChoices = {
  mode: {
    train: 'training',
    infer: 'inference',
    generate: 'writing text (generate)',
    serve: 'a server of requests',
  },
  maxBatch: { true: 'the largest batch' },
} as const satisfies Partial<Record<RequestField, Readonly<Record<string, string>>>>;

/** For those who fill in a form of the dashboard. */
export const formWording: RequestWording = {
  name: formName,
  example: (field, value) => `${formName(field)}: ${formValue(field, value)}`,
  anotherPython: 'have the server started with another',
};

function formName(field: RequestField): string {
  const labels: Partial<Record<RequestField, string>> = formLabels;
  const label = labels[field];
  return label === undefined ? `"${field}", which this form does not have` : `"${label}"`;
}

function formValue(field: RequestField, value: unknown): string {
  if (field === 'memoryBytes') return formatBytes(Number(value)).replace('.0 ', '');
  if (typeof value === 'boolean' && field !== 'maxBatch') return value ? 'yes' : 'no';
  const choices: Partial<Record<RequestField, Readonly<Record<string, string>>>> = formChoices;
  return choices[field]?.[String(value)] ?? String(value);
}

/** The arguments of a script, as an example. */
export function argsExample({ example }: RequestWording, batch: string): string {
  return example('args', { batch });
}
