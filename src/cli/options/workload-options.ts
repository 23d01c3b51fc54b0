import { existsSync } from 'node:fs';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import { type GpuHere, gpusAmong } from '../../estimate/cards/gpu-at-hand.js';
import { type EstimateMethod, estimateMethods } from '../../estimate/estimate.js';
import {
  type ModelSize,
  type ModelType,
  modelSizes,
  modelTypes,
} from '../../estimate/model-source.js';
import { doubledCounts } from '../../estimate/over-ranks.js';
import {
  type FsdpStrategy,
  fsdpStrategies,
  type PlainPrecision,
  parallelWays,
  plainPrecisions,
} from '../../estimate/parallel.js';
import { openEstimateWork } from '../../estimate/thread/estimate-threads.js';
import {
  type Kept,
  keptResults,
  type Optimizer,
  optimizers,
  type Precision,
  precisions,
  type QuantizationPreset,
  quantizationPresets,
  type Workload,
} from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { parseParameters } from '../../model/names/usual-decoder.js';
import type { AnswerMachine } from '../../plan/answers/machine.js';
import { workloadModes } from '../../plan/answers/read-workload.js';
import { isModelName, visionPrefix } from '../../plan/answers/source-of.js';
import type { RequestField, RequestWording } from '../../plan/answers/wording.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Offload } from '../../plan/fit/types.js';
import { formatBytes } from '../../units/bytes.js';
import type { CliIo } from '../io.js';
import { badArgument, countArgument, oneOfArgument } from './arguments.js';

/** What the options below become; what was not given is absent. */
export interface WorkloadArguments extends ParallelArguments {
  readonly mode?: Workload['mode'];
  readonly batch?: number;
  readonly seq?: number;
  readonly image?: number;
  readonly targetSeq?: number;
  readonly keep?: Kept;
  readonly precision?: Precision;
  readonly optimizer?: Optimizer;
  readonly accumulation?: number;
  readonly checkpointing?: boolean;
  readonly lora?: number;
  readonly quantization?: QuantizationPreset;
  readonly gpu?: string;
  readonly method?: EstimateMethod;
  readonly script?: string;
  readonly type?: ModelType;
  readonly size?: ModelSize;
  readonly parameters?: number;
  /** Whether config.json may be downloaded. */
  readonly hub?: boolean;
  readonly arg?: readonly string[];
  readonly python?: string;
  /** False with --no-cache. */
  readonly cache?: boolean;
  readonly config?: string;
}

export function addModelArgument(command: Command): Command {
  return command.argument(
    '[model...]',
    'a name (llama-3-8b), a config.json, .safetensors, .gguf, or a folder; torchvision:NAME; after --, an unchanged program',
  );
}

/**
 * Which model, run how, on what: `estimate`, `plan` and `submit` take these. What is not given
 * stays open; `unset` says for people what then holds.
 */
export function addWorkloadOptions(
  command: Command,
  unset: { readonly mode?: string; readonly precision?: string; readonly optimizer?: string } = {},
  modes: readonly string[] = workloadModes,
): Command {
  return command
    .option(
      '--mode <mode>',
      `${modes.join(', ')} (${unset.mode ?? 'train'})`,
      oneOfArgument('--mode', modes),
    )
    .option('--batch <n>', 'samples in a batch', countArgument('--batch'))
    .option('--seq <n>', 'sequence length in tokens', countArgument('--seq'))
    .option('--image <n>', 'image size in pixels (height and width)', countArgument('--image'))
    .option(
      '--target-seq <n>',
      'length of the labels in tokens, for encoder-decoder models (half of --seq)',
      countArgument('--target-seq'),
    )
    .option(
      '--keep <what>',
      'what the training loop keeps until the next step: loss, or outputs (all model outputs)',
      oneOfArgument('--keep', keptResults),
    )
    .option('--precision <name>', listed(precisions, unset.precision), precisionArgument)
    .option(
      '--optimizer <name>',
      listed(optimizers, unset.optimizer),
      oneOfArgument('--optimizer', optimizers),
    )
    .option('--checkpointing', 'gradient checkpointing')
    .option('--no-checkpointing', 'no gradient checkpointing')
    .option('--lora <rank>', 'train adapters on all linear layers', countArgument('--lora'))
    .option(
      '--quantization <preset>',
      quantizationPresets.join(', '),
      oneOfArgument('--quantization', quantizationPresets),
    )
    .option('--gpu <name>', 'GPU model, such as h100 or 4090 (the one in this machine, else h200)')
    .option(
      '--method <method>',
      'auto, trace (runs a few steps on the meta device, in Python) or formula (auto)',
      oneOfArgument('--method', estimateMethods),
    )
    .option(
      '--parameters <n>',
      'instead of a model: how many parameters it has, such as 22b',
      parseParameters,
    )
    .option('--hub', 'download config.json of a model by its name (HF_ENDPOINT, HF_TOKEN)')
    .option('--script <file.py>', 'instead of a model: a file that defines workload(**args)')
    .option('--arg <key=value>', 'an argument of workload; may be repeated', keyValue);
}

/**
 * Puts the options of a command under headings in its help; those of no group come under the last one.
 *
 * @example
 * groupOptions(command, { 'Options used most:': ['--batch', '--gpu', '--json'] });
 */
export function groupOptions(
  command: Command,
  groups: Readonly<Record<string, readonly string[]>>,
  rest = 'Other options:',
): void {
  for (const option of command.options) {
    const [heading = rest] =
      Object.entries(groups).find(([, flags]) => flags.includes(option.long ?? '')) ?? [];
    option.helpGroup(heading);
  }
}

/** What an answer is made with on this machine. */
export function addMachineOptions(command: Command): Command {
  return command
    .option('--python <program>', 'Python interpreter that has torch (the active one)')
    .option('--no-cache', 'compute again, even if the answer is cached')
    .option('--config <file>', 'configuration file (plimsoll.config.json)');
}

/** In place of a model, for those who have nothing but that; only `estimate` takes these. */
export function addTypeOptions(command: Command): Command {
  return command
    .option(
      '--type <type>',
      `for a rule of thumb: ${modelTypes.join(', ')}`,
      oneOfArgument('--type', modelTypes),
    )
    .option('--size <size>', modelSizes.join(', '), oneOfArgument('--size', modelSizes));
}

/** The same precisions as Lightning names them. */
const lightningNames: Readonly<Record<string, Precision>> = {
  '32-true': 'fp32',
  'bf16-true': 'bf16',
  '16-true': 'fp16',
  'bf16-mixed': 'amp-bf16',
  '16-mixed': 'amp-fp16',
};

function precisionArgument(text: string): Precision {
  return lightningNames[text] ?? oneOfArgument('--precision', precisions)(text);
}

function listed(names: readonly string[], unset: string | undefined): string {
  return `${names.join(', ')}${unset === undefined ? '' : ` (${unset})`}`;
}

/** What the options ask for, as a request; paths start in the folder where they were typed. */
export function workloadRequest(
  model: string | undefined,
  given: Omit<WorkloadArguments, 'mode'> & { readonly mode?: string },
  folder: string,
): WorkloadRequest {
  const { mode, batch, seq, image, precision, optimizer, checkpointing, lora } = given;
  const {
    quantization,
    gpu,
    method,
    type,
    size,
    parameters,
    script,
    arg,
    targetSeq,
    keep,
    accumulation,
    gpus,
    offload,
  } = given;
  return {
    ...parallelRequest(given),
    gpus,
    offload,
    model: model === undefined ? undefined : namedModel(model, folder),
    script: script === undefined ? undefined : resolve(folder, script),
    args: arg && argumentsOf(arg),
    type,
    size,
    parameters,
    mode,
    batch,
    seq,
    image,
    targetSeq,
    keep,
    precision,
    optimizer,
    accumulation,
    checkpointing,
    lora,
    quantization,
    gpu,
    method,
  };
}

/** What is there by that path goes before a model of that name. */
function namedModel(model: string, folder: string): string {
  const path = resolve(folder, model);
  if (model.startsWith(visionPrefix)) return model;
  return isModelName(model) && !existsSync(path) ? model : path;
}

function argumentsOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

function keyValue(text: string, before: readonly string[] = []): readonly string[] {
  if (/^[A-Za-z_]\w*=/.test(text)) return [...before, text];
  throw new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--arg cannot be "${text}".`,
    next: 'Write a name and a value, such as layers=12.',
  });
}

/** What the options below become; what was not given is absent. */
interface ParallelArguments {
  readonly gpus?: number | undefined;
  readonly parallel?: string;
  readonly tp?: number;
  readonly nodes?: number;
  readonly gatherPrecision?: PlainPrecision;
  readonly reducePrecision?: PlainPrecision;
  /** False with --no-reshard. */
  readonly reshard?: boolean;
  readonly fsdpStrategy?: FsdpStrategy;
  /** False with --no-orig-params. */
  readonly origParams?: boolean;
  readonly bucketMb?: number;
  readonly bucketView?: boolean;
  readonly offload?: Offload;
}

/** How a job is spread over GPUs: the figures are then those of one rank. */
export function addParallelOptions(command: Command): Command {
  return (
    command
      .option(
        '--gpus <n>',
        'GPUs that share the job (1); 2..512 shows what fills a rank over their number',
        gpuCounts,
      )
      .option('--parallel <way>', `how they share it: ${parallelWays.join(', ')}`)
      .option('--tp <n>', 'with fsdp2 or tp: GPUs that share each layer', countArgument('--tp'))
      .option(
        '--nodes <n>',
        'machines; hsdp keeps one copy of the model on each (2)',
        countArgument('--nodes'),
      )
      .option(
        '--gather-precision <name>',
        `FSDP: parameters are gathered in ${plainPrecisions.join(', ')} (--precision)`,
        oneOfArgument('--gather-precision', plainPrecisions),
      )
      .option(
        '--reduce-precision <name>',
        'FSDP: gradients are reduced in it (as they are)',
        oneOfArgument('--reduce-precision', plainPrecisions),
      )
      // With a positive form beside it, commander leaves an option undefined that was not given.
      .addOption(new Option('--reshard').hideHelp())
      .option('--no-reshard', 'FSDP: keep gathered parameters until backward')
      .option(
        '--fsdp-strategy <name>',
        'full, or grad-op: parameters stay gathered until backward (full)',
        oneOfArgument('--fsdp-strategy', fsdpStrategies),
      )
      .addOption(new Option('--orig-params').hideHelp())
      .option('--no-orig-params', 'FSDP1 with use_orig_params=False')
      .option('--bucket-mb <n>', 'DDP: size of a bucket (25)', countArgument('--bucket-mb'))
      .option('--bucket-view', 'DDP: gradients lie in the buckets')
      .option(
        '--offload <what>',
        'optimizer: its states and its step are on the host',
        oneOfArgument('--offload', ['optimizer'] as const),
      )
  );
}

/** Only what was given: a request that names a field is refused where it has no use. */
export function parallelRequest(given: ParallelArguments): Partial<WorkloadRequest> {
  const all: Partial<WorkloadRequest> = {
    parallel: given.parallel,
    tp: given.tp,
    nodes: given.nodes,
    gatherPrecision: given.gatherPrecision,
    reducePrecision: given.reducePrecision,
    reshard: given.reshard,
    fsdpStrategy: given.fsdpStrategy,
    origParams: given.origParams,
    bucketMb: given.bucketMb,
    bucketView: given.bucketView,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** One number of GPUs, or the counts of a range. */
export type GpuCounts = number | readonly number[];

function gpuCounts(text: string): GpuCounts {
  const [, first, last] = /^(\d{1,8})\.\.(\d{1,8})$/.exec(text) ?? [];
  if (first === undefined || last === undefined) return countArgument('--gpus')(text);
  const [from, to] = [first, last].map(countArgument('--gpus'));
  if (from === undefined || to === undefined || from < 2 || from > to) {
    throw badArgument('--gpus', text, 'A range goes up from 2 or more, such as 2..512.');
  }
  return doubledCounts(from, to);
}

/** What people can only turn off. */
const onByDefault = new Set(['reshard', 'origParams']);

/** Refuses options that are for models, where a program is run as it is. */
export function refuseForProgram(given: object, taken: ReadonlySet<string>): void {
  const other = Object.entries(given).find(
    ([name, value]) => value !== undefined && !taken.has(name),
  )?.[0];
  if (other === undefined) return;
  const option = `--${onByDefault.has(other) ? 'no-' : ''}${other.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw new Failure({
    kind: 'input',
    code: 'not-with-program',
    fact: `${option} is for models; a program is run as it is.`,
    next: "Leave it out, or give it to the program, after the program's name.",
  });
}

/** This machine, for answers to those who type options. */
export function workloadMachine(
  settings: Settings,
  { environment, folder }: CliIo,
  {
    python,
    hub,
    program,
  }: {
    readonly python?: string | undefined;
    readonly hub?: boolean | undefined;
    /** How the command that asks takes a program. */
    readonly program?: string;
  },
): AnswerMachine {
  return {
    environment,
    folder,
    python,
    hub,
    gpus: settings.gpus,
    gpusHere: () => gpusHere(settings),
    hostBytes: totalmem(),
    work: openEstimateWork({ allCores: true }).work,
    wording: { ...optionWording, program },
  };
}

/** Fields whose option has another name. */
const optionNames: Partial<Record<RequestField, string>> = {
  model: 'a model',
  args: '--arg',
  targetSeq: '--target-seq',
  memoryBytes: '--memory',
  allocatorMemoryBytes: '--allocator-memory',
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
  otherModels: 'give --parameters, or let --hub download its config.json',
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

/** The GPUs of this machine, in their order. */
export async function gpusHere(settings: Settings): Promise<readonly GpuHere[]> {
  const discovery = await openDevices(settings);
  try {
    return await gpusAmong(discovery.devices);
  } finally {
    discovery.close();
  }
}
