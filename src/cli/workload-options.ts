import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadSettings } from '../config/load.js';
import {
  type Optimizer,
  optimizers,
  type Precision,
  precisions,
  type QuantizationPreset,
  quantizationPresets,
  type Workload,
} from '../estimate/contract.js';
import { type EstimateMethod, estimateMethods } from '../estimate/estimate.js';
import { gpuAtHand } from '../estimate/gpu-at-hand.js';
import type { Gpu } from '../estimate/gpu-table.js';
import { findGpu } from '../estimate/gpus.js';
import type { ModelSource } from '../estimate/model-source.js';
import { type ModelSize, type ModelType, modelSizes, modelTypes } from '../estimate/model-types.js';
import { Failure } from '../failure.js';
import { countArgument, oneOfArgument } from './arguments.js';
import { gpusHere } from './gpus-here.js';
import type { CliIo } from './io.js';

const modes = ['train', 'infer'] as const;
/** Before the name of a classifier of torchvision, in place of a path. */
const visionPrefix = 'torchvision:';

/** What the options below become; what was not given is absent. */
export interface WorkloadArguments {
  readonly mode?: Workload['mode'];
  readonly batch?: number;
  readonly seq?: number;
  readonly image?: number;
  readonly precision?: Precision;
  readonly optimizer?: Optimizer;
  readonly checkpointing?: boolean;
  readonly lora?: number;
  readonly quantization?: QuantizationPreset;
  readonly gpu?: string;
  readonly method?: EstimateMethod;
  readonly script?: string;
  readonly type?: ModelType;
  readonly size?: ModelSize;
  readonly arg?: readonly string[];
  readonly python?: string;
  readonly config?: string;
}

/** A workload of which anything may have been left open. */
export type OpenWorkload = Partial<Workload>;

/** What the options ask for: which model, run how, on what. */
export interface WantedWorkload {
  readonly source: ModelSource;
  readonly workload: OpenWorkload;
  readonly gpu: Gpu;
  /** Why it is this card, where nobody named one. */
  readonly notes: readonly string[];
  readonly method: EstimateMethod;
  readonly python?: string | undefined;
}

/**
 * Which model, run how, on what: `estimate` and `plan` take these. What is not given stays open;
 * `unset` says for people what then holds.
 */
export function addWorkloadOptions(
  command: Command,
  unset: { readonly precision?: string; readonly optimizer?: string } = {},
): Command {
  return command
    .argument('[model]', 'a config.json, .safetensors, .gguf, or a folder; torchvision:NAME')
    .option('--mode <mode>', 'train or infer (train)', oneOfArgument('--mode', modes))
    .option('--batch <n>', 'samples in a batch', countArgument('--batch'))
    .option('--seq <n>', 'tokens in a sequence', countArgument('--seq'))
    .option('--image <n>', "pixels of an image's edge", countArgument('--image'))
    .option(
      '--precision <name>',
      listed(precisions, unset.precision),
      oneOfArgument('--precision', precisions),
    )
    .option(
      '--optimizer <name>',
      listed(optimizers, unset.optimizer),
      oneOfArgument('--optimizer', optimizers),
    )
    .option('--checkpointing', 'gradient checkpointing')
    .option('--no-checkpointing', 'without it')
    .option('--lora <rank>', 'train adapters on all linear layers', countArgument('--lora'))
    .option(
      '--quantization <preset>',
      quantizationPresets.join(', '),
      oneOfArgument('--quantization', quantizationPresets),
    )
    .option('--gpu <name>', 'on this card, such as h100 or 4090 (the one found here, or h200)')
    .option(
      '--method <method>',
      'auto, trace (a few steps without memory, in Python) or formula (auto)',
      oneOfArgument('--method', estimateMethods),
    )
    .option('--script <file.py>', 'instead of a model: a file that defines workload(**args)')
    .option('--arg <key=value>', 'an argument of workload; may be repeated', keyValue)
    .option('--python <program>', 'the Python that has torch (the active one)')
    .option('--config <file>', 'this configuration file instead of plimsoll.config.json');
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

function listed(names: readonly string[], unset: string | undefined): string {
  return `${names.join(', ')}${unset === undefined ? '' : ` (${unset})`}`;
}

/** Reads the configuration, and puts together what the options ask for. */
export async function wantedWorkload(
  model: string | undefined,
  given: WorkloadArguments,
  { folder, environment }: CliIo,
): Promise<WantedWorkload> {
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const source = sourceOf(model, given, folder);
  const { gpu, notes } =
    given.gpu === undefined
      ? gpuAtHand(await gpusHere(settings), settings.gpus)
      : { gpu: findGpu(given.gpu, settings.gpus), notes: [] };
  const { method = 'auto', python } = given;
  return { source, workload: openWorkload(given), gpu, notes, method, python };
}

/** The workload that an estimate is for; what was left open is taken as most people have it. */
export function closedWorkload(open: OpenWorkload, source: ModelSource): Workload {
  if (source.kind === 'script') refuseForScript(open);
  else if (open.batch === undefined) {
    throw badUsage('No --batch was given.', 'Say how many samples a batch has.');
  }
  return {
    mode: 'train',
    batch: 1,
    precision: 'fp32',
    optimizer: 'adamw',
    checkpointing: false,
    ...open,
  };
}

/** A script makes its own batch and its own model; an option that does nothing would mislead. */
function refuseForScript({ batch, sequence, image, checkpointing, quantization }: OpenWorkload) {
  const given = { batch, seq: sequence, image, checkpointing, quantization };
  const [name] = Object.entries(given).find(([, value]) => value !== undefined) ?? [];
  if (name === undefined) return;
  throw badUsage(
    `--${name} does not reach a script.`,
    'Hand it over as an argument of its workload, such as --arg batch=8.',
  );
}

function openWorkload(given: WorkloadArguments): OpenWorkload {
  const { mode, batch, seq, image, precision, optimizer, checkpointing } = given;
  const { lora, quantization } = given;
  const all = {
    mode,
    batch,
    sequence: seq,
    image,
    precision,
    optimizer,
    checkpointing,
    loraRank: lora,
    quantization,
  };
  // Absent, not undefined: what is spread over defaults must leave them alone.
  const present = Object.entries(all).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present);
}

function sourceOf(
  model: string | undefined,
  { script, arg = [], type, size }: WorkloadArguments,
  folder: string,
): ModelSource {
  const named = { 'a model': model, '--script': script, '--type': type ?? size };
  const [first, second] = Object.keys(named).filter((name) => Reflect.get(named, name));
  if (second !== undefined) {
    throw badUsage(`Both ${first} and ${second} were given.`, 'Leave one of them out.');
  }
  if (script !== undefined) return { kind: 'script', path: resolve(folder, script), args: arg };
  if (arg.length > 0)
    throw badUsage('--arg is for a --script, and none was given.', 'Leave it out.');
  if (type !== undefined && size !== undefined) return { kind: 'type', type, size };
  if (type !== undefined || size !== undefined)
    throw badUsage('--type and --size go together.', 'Give both, such as --type cnn --size small.');
  if (model === undefined)
    throw badUsage('No model was given.', 'Name a config.json, or a --script.');
  if (model.startsWith(visionPrefix)) {
    return { kind: 'torchvision', name: model.slice(visionPrefix.length) };
  }
  return { kind: 'path', path: resolve(folder, model) };
}

function keyValue(text: string, before: readonly string[] = []): readonly string[] {
  if (/^[A-Za-z_]\w*=/.test(text)) return [...before, text];
  throw new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--arg cannot be "${text}".`,
    next: 'It takes a name and a value, such as layers=12.',
  });
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}
