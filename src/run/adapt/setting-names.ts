/** What a setting of a batch is called in programs, in the order in which one is believed. */
export const batchNames = [
  'per_device_train_batch_size',
  'per_gpu_train_batch_size',
  'train_micro_batch_size_per_gpu',
  'micro_batch_size',
  'train_batch_size',
  'batch_size',
  'batchsize',
  'bs',
  'b',
] as const;

export const accumulationNames = [
  'gradient_accumulation_steps',
  'grad_accumulation_steps',
  'accumulate_grad_batches',
  'gradient_accumulation',
  'grad_accum_steps',
  'grad_accum',
  'accumulation_steps',
  'accum_iter',
  'accumulate',
  'accumulation',
] as const;

/** Programs that take the first take the second, too: both are arguments of the same trainer. */
export const accumulationOf: Readonly<Record<string, string | undefined>> = {
  per_device_train_batch_size: 'gradient_accumulation_steps',
  per_gpu_train_batch_size: 'gradient_accumulation_steps',
};

/** A number of samples or of microbatches; what is larger is something else. */
export function wholeNumber(text: string): number | undefined {
  return /^[1-9]\d{0,6}$/.test(text) ? Number(text) : undefined;
}

/** `--Batch-Size` and `trainer.batch_size` as the lists above write them. */
export function plainName(text: string): string {
  const last =
    text
      .replace(/^[-+~]+/, '')
      .split('.')
      .at(-1) ?? '';
  return last.toLowerCase().replaceAll('-', '_');
}
