import type { RequestField, RequestWording } from '../../plan/answers/wording.js';
import { formatBytes } from '../../units/bytes.js';

/** Fields whose option has another name. */
const optionNames: Partial<Record<RequestField, string>> = {
  model: 'a model',
  args: '--arg',
  targetSeq: '--target-seq',
  memoryBytes: '--memory',
  maxBatch: '--max-batch',
  maxModelLen: '--max-model-len',
  gpuMemoryUtilization: '--gpu-memory-utilization',
  kvPrecision: '--kv-precision',
  gatherPrecision: '--gather-precision',
  reducePrecision: '--reduce-precision',
  reshard: '--no-reshard',
  fsdpStrategy: '--fsdp-strategy',
  origParams: '--no-orig-params',
  bucketMb: '--bucket-mb',
  bucketView: '--bucket-view',
};

/** For those who type options. */
export const optionWording: RequestWording = {
  name: optionName,
  example: (field, value) => `${optionName(field)} ${shown(field, value)}`,
  anotherPython: 'name another with --python',
};

function optionName(field: RequestField): string {
  return optionNames[field] ?? `--${field}`;
}

function shown(field: RequestField, value: unknown): string {
  if (field === 'memoryBytes') return formatBytes(Number(value)).replace('.0 ', '');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, text]) => `${name}=${String(text)}`)
    .join(' ');
}
