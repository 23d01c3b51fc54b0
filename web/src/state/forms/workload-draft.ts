import type { WorkloadRequest } from '../../api/types.js';
import { type Draft, type FieldReader, onlySet } from './form-values.js';

export const workloadFields = [
  'model',
  'mode',
  'batch',
  'seq',
  'image',
  'keep',
  'precision',
  'optimizer',
  'checkpointing',
  'lora',
  'quantization',
  'gpu',
  'method',
] as const;
export type WorkloadField = (typeof workloadFields)[number];
export type WorkloadDraft = Draft<WorkloadField>;

export const emptyWorkload: WorkloadDraft = {
  model: '',
  mode: 'train',
  batch: '',
  seq: '',
  image: '',
  keep: '',
  precision: '',
  optimizer: '',
  checkpointing: '',
  lora: '',
  quantization: '',
  gpu: '',
  method: '',
};

/** Reads the fields as the server takes them; empty ones stay open. */
export function readWorkload(reader: FieldReader<WorkloadField>): WorkloadRequest {
  const checkpointing = reader.text('checkpointing');
  return onlySet({
    model: reader.text('model'),
    mode: reader.text('mode'),
    batch: reader.whole('batch', 1),
    seq: reader.whole('seq', 1),
    image: reader.whole('image', 1),
    keep: reader.text('keep'),
    precision: reader.text('precision'),
    optimizer: reader.text('optimizer'),
    checkpointing: checkpointing === undefined ? undefined : checkpointing === 'yes',
    lora: reader.whole('lora', 1),
    quantization: reader.text('quantization'),
    gpu: reader.text('gpu'),
    method: reader.text('method'),
  });
}

/** The fields as they are typed for a workload that was sent before. */
export function draftOf(request: WorkloadRequest): WorkloadDraft {
  const { checkpointing } = request;
  const draft: Record<WorkloadField, string> = { ...emptyWorkload };
  for (const field of workloadFields) {
    const value = request[field];
    if (typeof value === 'string' || typeof value === 'number') draft[field] = String(value);
  }
  if (checkpointing !== undefined) draft.checkpointing = checkpointing ? 'yes' : 'no';
  return draft;
}
