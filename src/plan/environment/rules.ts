import type { GpuVendor } from '../../estimate/cards/gpu-table.js';
import { Failure } from '../../failure.js';
import { checkArguments, number, oneOf, text, whole } from '../../units/arguments.js';
import { formatBytes } from '../../units/bytes.js';
import { capitalized } from '../../units/words.js';
import {
  type EnvironmentContext,
  type EnvironmentSetting,
  environmentModes,
  type MemoryBudget,
} from './types.js';

/** The advised value of a variable in one mode. */
export interface Advice {
  readonly action: 'set' | 'unset' | 'consider';
  /** None for `unset`; a function where it depends on the machine, and undefined where it is moot. */
  readonly value?: string | ((context: EnvironmentContext) => string | undefined);
  readonly reason: string | ((context: EnvironmentContext) => string);
  /** A job must not start without it. */
  readonly required?: boolean;
}

/** One variable that PyTorch, NVIDIA, AMD, Hugging Face or Python documents. */
export interface EnvironmentRule {
  readonly name: string;
  /** Both when left out. */
  readonly vendor?: GpuVendor;
  /** Of no use to a job on one GPU. */
  readonly severalGpus?: boolean;
  /** How its text is read: a switch (0, false, 1 ...), or a word in any case. */
  readonly reads: 'switch' | 'word' | 'allocator';
  /** The effect of an unset variable; leaving it unset is then as good as setting it to that. */
  readonly otherwise?: string;
  /** Values that are for debugging only, besides the one that debug mode sets. */
  readonly debugValues?: readonly string[];
  readonly production?: Advice;
  readonly debug?: Advice;
}

function threads({ cores, gpus }: EnvironmentContext): string {
  return String(Math.max(1, Math.floor(cores / Math.max(1, gpus))));
}

const threadAdvice: Advice = {
  action: 'set',
  value: threads,
  reason:
    'Each process, one a GPU, gets its share of the cores; more threads than cores only wait for each other.',
};

const inBothModes = (advice: Advice) => ({ production: advice, debug: advice });

export const environmentRules: readonly EnvironmentRule[] = [
  {
    name: 'CUDA_LAUNCH_BLOCKING',
    vendor: 'nvidia',
    reads: 'switch',
    otherwise: '0',
    production: {
      action: 'set',
      value: '0',
      reason: 'Python queues kernels and goes on; with 1 it would wait for each of them.',
      required: true,
    },
    debug: {
      action: 'set',
      value: '1',
      reason: 'Each launch waits for its kernel, so an error is raised at the line that caused it.',
      required: true,
    },
  },
  {
    name: 'AMD_SERIALIZE_KERNEL',
    vendor: 'amd',
    reads: 'word',
    otherwise: '0',
    debugValues: ['1', '2'],
    production: {
      action: 'set',
      value: '0',
      reason: 'Python queues kernels and goes on; with 1 to 3 it would wait for each of them.',
      required: true,
    },
    debug: {
      action: 'set',
      value: '3',
      reason:
        'Waits before and after each kernel, so an error is raised at the line that caused it.',
      required: true,
    },
  },
  {
    name: 'PYTORCH_CUDA_ALLOC_CONF',
    reads: 'allocator',
    ...inBothModes({ action: 'set', value: allocConfValue, reason: allocConfReason }),
  },
  {
    name: 'PYTORCH_NO_CUDA_MEMORY_CACHING',
    reads: 'word',
    production: {
      action: 'unset',
      reason:
        'Any value, in some versions even 0, sends every tensor to the driver: slow, and the settings of the allocator are void.',
      required: true,
    },
    debug: {
      action: 'consider',
      value: '1',
      reason:
        'Each tensor is an allocation of its own, so compute-sanitizer sees an access beyond it; slow, and peaks then tell nothing of production.',
    },
  },
  {
    name: 'TORCH_SHOW_CPP_STACKTRACES',
    reads: 'switch',
    otherwise: '0',
    production: {
      action: 'set',
      value: '0',
      reason: 'C++ stacks make an error in the log hard to read.',
    },
    debug: {
      action: 'set',
      value: '1',
      reason: 'An error that comes from C++ shows its stack.',
    },
  },
  {
    name: 'TORCH_DISTRIBUTED_DEBUG',
    severalGpus: true,
    reads: 'word',
    otherwise: 'OFF',
    debugValues: ['INFO'],
    production: {
      action: 'set',
      value: 'OFF',
      reason: 'The checks of INFO and DETAIL cost time at every collective.',
    },
    debug: {
      action: 'set',
      value: 'DETAIL',
      reason: 'Names the rank and the collective when ranks do not agree, instead of a hang.',
    },
  },
  {
    name: 'NCCL_DEBUG',
    severalGpus: true,
    reads: 'word',
    debugValues: ['TRACE'],
    production: {
      action: 'set',
      value: 'WARN',
      reason: 'NCCL reports warnings and errors, and nothing else.',
    },
    debug: {
      action: 'set',
      value: 'INFO',
      reason: 'NCCL reports which links, networks and algorithms it chose.',
    },
  },
  {
    name: 'TORCH_NCCL_ASYNC_ERROR_HANDLING',
    severalGpus: true,
    reads: 'word',
    otherwise: '3',
    production: {
      action: 'set',
      value: '3',
      reason: 'A rank that fails ends the others, too; with 0 they would wait for ever.',
    },
  },
  {
    name: 'CUDA_MODULE_LOADING',
    vendor: 'nvidia',
    reads: 'word',
    otherwise: 'LAZY',
    production: {
      action: 'set',
      value: 'LAZY',
      reason:
        'Kernels are loaded when first used, which keeps the context small; the default since CUDA 12.2.',
    },
  },
  {
    name: 'CUDA_DEVICE_ORDER',
    vendor: 'nvidia',
    reads: 'word',
    ...inBothModes({
      action: 'set',
      value: 'PCI_BUS_ID',
      reason:
        'GPUs are numbered as nvidia-smi and plimsoll number them, not the fastest one first.',
    }),
  },
  { name: 'OMP_NUM_THREADS', reads: 'word', ...inBothModes(threadAdvice) },
  {
    name: 'MKL_NUM_THREADS',
    reads: 'word',
    ...inBothModes({
      ...threadAdvice,
      reason: 'The same as OMP_NUM_THREADS, over which it takes precedence in MKL.',
    }),
  },
  {
    name: 'TOKENIZERS_PARALLELISM',
    reads: 'switch',
    ...inBothModes({
      action: 'set',
      value: 'false',
      reason:
        'Workers of a data loader are processes of their own; threads started before they fork could deadlock.',
    }),
  },
  {
    name: 'PYTHONFAULTHANDLER',
    reads: 'switch',
    ...inBothModes({
      action: 'set',
      value: '1',
      reason: 'A crash in native code prints the Python stack; it costs nothing until then.',
    }),
  },
  {
    name: 'NVIDIA_TF32_OVERRIDE',
    vendor: 'nvidia',
    reads: 'word',
    production: {
      action: 'unset',
      reason: 'It overrides what the program chose; 0 takes the tensor cores from fp32 work.',
      required: true,
    },
    debug: {
      action: 'consider',
      value: '0',
      reason: 'Rules TF32 rounding out when numbers differ between machines.',
    },
  },
  {
    name: 'CUBLAS_WORKSPACE_CONFIG',
    vendor: 'nvidia',
    reads: 'word',
    debug: {
      action: 'consider',
      value: ':4096:8',
      reason:
        'Needed by torch.use_deterministic_algorithms; the workspace then takes 32 MiB for each handle and stream.',
    },
  },
];

/** Names that PyTorch still takes, with a warning, and those that it goes by now. */
export const oldNames: readonly (readonly [old: string, now: string])[] = [
  ['NCCL_ASYNC_ERROR_HANDLING', 'TORCH_NCCL_ASYNC_ERROR_HANDLING'],
];

/**
 * Returns the advised `PYTORCH_CUDA_ALLOC_CONF`; undefined if PyTorch's own defaults are best. AMD
 * gets no expandable segments: they are new there, and jobs were seen to hang.
 */
export function allocConfValue({ mode, vendor, budget }: EnvironmentContext): string | undefined {
  const expandable = `expandable_segments:${mode === 'production' ? 'True' : 'False'}`;
  const fraction = budget === undefined ? undefined : memoryFraction(budget);
  const options = [
    ...(vendor === 'nvidia' ? [expandable] : []),
    ...(fraction === undefined ? [] : [`per_process_memory_fraction:${fraction}`]),
  ];
  return options.length === 0 ? undefined : options.join(',');
}

export function allocConfReason({ mode, vendor, budget }: EnvironmentContext): string {
  const segments =
    mode === 'production'
      ? 'Segments grow in place instead of being cut from fixed blocks, so sizes that change from step to step leave fewer holes'
      : "PyTorch's own default, in which a segment is one allocation of the driver, as snapshots and sanitizers show it";
  const fraction = 'the fraction, which PyTorch 2.11 takes, keeps the process to its budget';
  const limited = budget !== undefined && memoryFraction(budget) !== undefined;
  if (vendor === 'amd') return `${capitalized(fraction)}.`;
  return `${segments}${limited ? `; ${fraction}` : ''}.`;
}

/**
 * The share of the capacity that PyTorch's allocator may take so that the whole process keeps to the
 * budget; undefined when the budget is all there is. Rounded down, to four digits.
 *
 * @example
 * memoryFraction({ memoryBytes: 20e9, capacityBytes: 80e9, contextBytes: 0 }); // 0.25
 */
export function memoryFraction(budget: MemoryBudget): number | undefined {
  const { memoryBytes, capacityBytes, contextBytes } = budget;
  if (memoryBytes >= capacityBytes) return undefined;
  const fraction = Math.floor(((memoryBytes - contextBytes) / capacityBytes) * 1e4) / 1e4;
  if (fraction > 0) return fraction;
  throw memoryTooSmall(memoryBytes, contextBytes);
}

/** Nothing is left for the program. */
export function memoryTooSmall(memoryBytes: number, contextBytes: number): Failure {
  return new Failure({
    kind: 'input',
    code: 'memory-too-small',
    fact: `A budget of ${formatBytes(memoryBytes)} leaves nothing: the CUDA context alone takes about ${formatBytes(contextBytes)} (estimated).`,
    next: 'Give it more memory.',
  });
}

type Entry = [name: string, values: readonly string[] | null];

/** Words that a switch takes for on. */
const on = ['1', 'true', 'True', 'TRUE', 'yes', 'on'];

/**
 * Which values of which variables are for debugging, and so have no place in a program that goes into
 * production; null stands for any value.
 *
 * @example
 * debugSettings()['CUDA_LAUNCH_BLOCKING']; // ['1', 'true', ...]
 */
export function debugSettings(): Readonly<Record<string, readonly string[] | null>> {
  const entries = environmentRules.flatMap(
    ({ name, production, debug, debugValues = [], reads }): Entry[] => {
      if (production === undefined) return [];
      if (production.action === 'unset') return [[name, null]];
      const value = debug?.action === 'set' && typeof debug.value === 'string' ? [debug.value] : [];
      const values = [...debugValues, ...value].filter((one) => one !== production.value);
      if (values.length === 0) return [];
      return [[name, reads === 'switch' ? on : values]];
    },
  );
  return Object.fromEntries(entries);
}

/**
 * Returns the settings for a job, with reasons.
 *
 * @example
 * environmentSettings({ mode: 'debug', vendor: 'nvidia', cores: 8, gpus: 1 })[0];
 * // { name: 'CUDA_LAUNCH_BLOCKING', action: 'set', value: '1', reason: 'Each launch waits ...' }
 */
export function environmentSettings(context: EnvironmentContext): EnvironmentSetting[] {
  checkArguments('environmentSettings', { ...Object(context) }, contextRules);
  return environmentRules
    .filter((rule) => appliesTo(rule, context))
    .flatMap((rule) => {
      const advice = rule[context.mode];
      return advice === undefined ? [] : settingOf(rule.name, advice, context);
    });
}

const contextRules = {
  mode: oneOf(environmentModes),
  vendor: text,
  cores: number,
  gpus: whole(0),
};

/** Whether a job on this machine has any use for the variable. */
export function appliesTo(rule: EnvironmentRule, { vendor, gpus }: EnvironmentContext): boolean {
  return (rule.vendor ?? vendor) === vendor && (!rule.severalGpus || gpus > 1);
}

/** The value in words that a shell takes; undefined where there is none to set. */
export function adviceValue({ value }: Advice, context: EnvironmentContext): string | undefined {
  return typeof value === 'function' ? value(context) : value;
}

export function adviceReason({ reason }: Advice, context: EnvironmentContext): string {
  return typeof reason === 'function' ? reason(context) : reason;
}

function settingOf(
  name: string,
  advice: Advice,
  context: EnvironmentContext,
): EnvironmentSetting[] {
  const { action } = advice;
  const reason = adviceReason(advice, context);
  if (action === 'unset') return [{ name, action, reason }];
  const value = adviceValue(advice, context);
  return value === undefined ? [] : [{ name, action, value, reason }];
}
