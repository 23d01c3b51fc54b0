import type { Optimizer } from '../../estimate/types.js';
import type { PlanSettings } from '../fit/types.js';

/** The names that TrainingArguments has for optimizers; the others are handed to the Trainer itself. */
const optimizerNames: Partial<Readonly<Record<Optimizer, string>>> = {
  adamw: 'adamw_torch',
  'adamw-fused': 'adamw_torch_fused',
  'adamw-8bit': 'adamw_bnb_8bit',
  adafactor: 'adafactor',
  adagrad: 'adagrad',
  rmsprop: 'rmsprop',
  sgd: 'sgd',
};

export function trainerSnippet(settings: PlanSettings): string {
  const { batch, accumulation, precision, checkpointing, optimizer } = settings;
  const { name, without } = optimizerOf(optimizer);
  const isSharded = settings.zero > 0 || settings.offload === 'optimizer';
  const call = pythonCall('args = TrainingArguments', ['"out"'], {
    per_device_train_batch_size: batch,
    gradient_accumulation_steps: accumulation,
    bf16: precision === 'amp-bf16' ? true : undefined,
    fp16: precision === 'amp-fp16' ? true : undefined,
    gradient_checkpointing: checkpointing,
    optim: name,
    deepspeed: isSharded ? 'deepspeed.json' : undefined,
  });
  return [
    ...(isSharded
      ? ['# deepspeed.json: plimsoll plan ... --format deepspeed > deepspeed.json']
      : []),
    ...loadedIn(precision),
    ...without,
    'from transformers import TrainingArguments',
    '',
    ...call,
  ].join('\n');
}

/** Returns an optimizer's name in TrainingArguments, or the line that passes it without a name. */
export function optimizerOf(optimizer: PlanSettings['optimizer']): {
  readonly name?: string | undefined;
  readonly without: readonly string[];
} {
  const name = optimizer === 'none' ? undefined : optimizerNames[optimizer];
  if (name !== undefined || optimizer === 'none') return { name, without: [] };
  const line = `# TrainingArguments has no name for ${optimizer}: give it as optimizers=(..., None).`;
  return { without: [line] };
}

/** Weights in 16 bits are a matter of loading, not of the arguments. */
export function loadedIn(precision: PlanSettings['precision']): string[] {
  if (precision !== 'bf16' && precision !== 'fp16') return [];
  const name = precision === 'bf16' ? 'bfloat16' : 'float16';
  return [`# Load the model in ${name}: from_pretrained(..., dtype="${name}")`];
}

/** An argument of a Python call: a number, a truth value, or text; undefined is left out. */
type PythonValue = number | boolean | string | undefined;

/**
 * A call in Python, one argument a line.
 *
 * @example
 * pythonCall('args = TrainingArguments', ['"out"'], { bf16: true });
 */
export function pythonCall(
  head: string,
  first: readonly string[],
  named: Readonly<Record<string, PythonValue>>,
): string[] {
  const given = Object.entries(named).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${literal(value)}`],
  );
  return [`${head}(`, ...[...first, ...given].map((argument) => `    ${argument},`), ')'];
}

/** JSON writes texts and numbers as Python does. */
function literal(value: number | boolean | string): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return JSON.stringify(value);
}
