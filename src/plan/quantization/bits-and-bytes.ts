import type { QuantizationPreset } from '../../estimate/types.js';
import { GiB, MiB } from '../../units/bytes.js';
import { presetFacts } from './presets.js';

/** Memory for the weights. */
export interface QuantizationMemory {
  /** Of each GPU, by its number. */
  readonly gpuBytes: readonly number[];
  readonly hostBytes: number;
}

export type ComputeDtype = 'bfloat16' | 'float16';

/** Arguments of transformers' `from_pretrained`, as JSON can hold them. */
export interface FromPretrainedArguments {
  /** Arguments of `BitsAndBytesConfig`; absent where nothing is quantized. */
  readonly quantization_config?: Readonly<Record<string, boolean | string>>;
  readonly dtype: ComputeDtype | 'float32';
  readonly device_map: 'auto' | 'cpu';
  /** Keys are the numbers of GPUs, as text, and `cpu`. */
  readonly max_memory: Readonly<Record<string, string>>;
}

/**
 * How transformers is told to load a model with a preset. Without offload there is no `cpu` in
 * `max_memory`: what does not fit is then an error, not a slow surprise.
 *
 * @example
 * bitsAndBytesArguments('int8', { gpuBytes: [24 * 1024 ** 3], hostBytes: 0 });
 * // { quantization_config: { load_in_8bit: true }, dtype: 'bfloat16', device_map: 'auto',
 * //   max_memory: { '0': '24GiB' } }
 */
export function bitsAndBytesArguments(
  preset: QuantizationPreset,
  memory: QuantizationMemory,
  computeDtype: ComputeDtype = 'bfloat16',
): FromPretrainedArguments {
  const { weights, quantized, config } = presetFacts[preset];
  const fourBits = config['load_in_4bit'] === true;
  const gpus = weights === 'host' ? [] : memory.gpuBytes;
  return {
    ...(quantized && {
      quantization_config: {
        ...config,
        ...(fourBits && { bnb_4bit_compute_dtype: computeDtype }),
      },
    }),
    dtype: weights === 'host' ? 'float32' : computeDtype,
    device_map: weights === 'host' ? 'cpu' : 'auto',
    max_memory: {
      ...Object.fromEntries(gpus.map((bytes, index) => [String(index), wholeSize(bytes)])),
      ...(weights !== 'gpu' && { cpu: wholeSize(memory.hostBytes) }),
    },
  };
}

/**
 * The same as a piece of Python that loads the model whose name is in `model_name`.
 *
 * @example
 * asPython(bitsAndBytesArguments('cpu', { gpuBytes: [], hostBytes: 48 * 1024 ** 3 }));
 * // from transformers import AutoModelForCausalLM
 * //
 * // model = AutoModelForCausalLM.from_pretrained(
 * //     model_name,
 * //     dtype="float32",
 * //     device_map="cpu",
 * //     max_memory={"cpu": "48GiB"},
 * // )
 */
export function asPython(given: FromPretrainedArguments): string {
  const { quantization_config: config, dtype, device_map: map, max_memory: most } = given;
  const names = config ? 'AutoModelForCausalLM, BitsAndBytesConfig' : 'AutoModelForCausalLM';
  const configLines = config
    ? [
        '    quantization_config=BitsAndBytesConfig(',
        ...Object.entries(config).map(([key, value]) => `        ${key}=${literal(value)},`),
        '    ),',
      ]
    : [];
  const memory = Object.entries(most).map(([key, size]) => `${memoryKey(key)}: ${literal(size)}`);
  return [
    `from transformers import ${names}`,
    '',
    'model = AutoModelForCausalLM.from_pretrained(',
    '    model_name,',
    ...configLines,
    `    dtype=${literal(dtype)},`,
    `    device_map=${literal(map)},`,
    `    max_memory={${memory.join(', ')}},`,
    ')',
    '',
  ].join('\n');
}

/** Never more than there is: in MiB where it is not whole GiB, and rounded down. */
function wholeSize(bytes: number): string {
  const whole = Math.max(0, bytes);
  return whole % GiB === 0 ? `${whole / GiB}GiB` : `${Math.floor(whole / MiB)}MiB`;
}

/** JSON writes texts as Python does. */
function literal(value: boolean | string): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return JSON.stringify(value);
}

function memoryKey(key: string): string {
  return /^\d+$/.test(key) ? key : literal(key);
}
