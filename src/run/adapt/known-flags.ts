/** Names of the batch setting in programs, the most reliable first. */
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

/** A command whose batch is set by an option of the program. */
export interface KnownFlags {
  /** With `{batch_size}`, and `{accumulation}` where the program takes it, in place of the numbers. */
  readonly command: readonly string[];
  /** As it was typed: `--batch-size`, `trainer.batch_size`. */
  readonly batchFlag: string;
  readonly batch: number;
  readonly accumulation: number;
}

interface Found {
  /** The word that holds the number, and what stands before the number in it. */
  readonly at: number;
  readonly before: string;
  readonly flag: string;
  readonly name: string;
  readonly value: number;
}

/**
 * The options by which a usual training program is told its batch; undefined where there are none.
 *
 * @example
 * knownFlags(['python', 'train.py', '--batch-size', '8'])?.command;
 * // ['python', 'train.py', '--batch-size', '{batch_size}']
 */
export function knownFlags(command: readonly string[]): KnownFlags | undefined {
  const all = command.flatMap((_, at) => (at === 0 ? [] : foundAt(command, at)));
  const batch = best(all, batchNames);
  if (batch === undefined) return undefined;
  const accumulation = best(all, accumulationNames);
  const words = [...command];
  words[batch.at] = `${batch.before}{batch_size}`;
  if (accumulation !== undefined) words[accumulation.at] = `${accumulation.before}{accumulation}`;
  const other = accumulationOf[batch.name];
  const isOption = batch.flag.startsWith('--');
  if (accumulation === undefined && other !== undefined && isOption) {
    words.push(`--${other}`, '{accumulation}');
  }
  return {
    command: words,
    batchFlag: batch.flag,
    batch: batch.value,
    accumulation: accumulation?.value ?? 1,
  };
}

/** The first name of the list that a command has; of an option that is there twice, the last counts. */
function best(all: readonly Found[], names: readonly string[]): Found | undefined {
  for (const name of names) {
    const found = all.findLast((one) => one.name === name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function foundAt(command: readonly string[], at: number): readonly Found[] {
  const word = command[at] ?? '';
  const equals = word.indexOf('=');
  const flag = equals === -1 ? word : word.slice(0, equals);
  const name = plainName(flag);
  const isOption = /^--?[a-z]/i.test(flag);
  // `-b` means something else to most tools; `b=2` and `bs 4` mean nothing sure.
  if (name.length <= 2 && !(isOption && isScript(command, at))) return [];
  if (equals !== -1) {
    const value = wholeNumber(word.slice(equals + 1));
    return value === undefined ? [] : [{ at, before: `${flag}=`, flag, name, value }];
  }
  const value = isOption ? wholeNumber(command[at + 1] ?? '') : undefined;
  return value === undefined ? [] : [{ at: at + 1, before: '', flag, name, value }];
}

/** Whether a Python program, and not its launcher, reads this word. */
function isScript(command: readonly string[], at: number): boolean {
  return command.slice(0, at).some((word) => word.endsWith('.py') || word === '-m');
}
