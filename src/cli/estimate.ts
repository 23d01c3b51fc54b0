import { dirname, join, resolve } from 'node:path';
import { loadSettings } from '../config/load.js';
import { optimizers, precisions, type Workload } from '../estimate/contract.js';
import { findGpu } from '../estimate/gpus.js';
import { pythonTrace, type TraceSource } from '../estimate/python-trace.js';
import { tracedEstimate, tracedGpu } from '../estimate/traced-estimate.js';
import { Failure } from '../failure.js';
import { readModel } from '../model/read-model.js';
import { estimateText } from '../report/text/estimate-text.js';
import { countArgument, oneOfArgument } from './arguments.js';
import type { CommandModule } from './command-module.js';
import { type CliIo, printJson, textStyle } from './io.js';
import { stopOnSignals } from './stop.js';

const modes = ['train', 'infer'] as const;
const methods = ['auto', 'trace'] as const;
/** Before the name of a classifier of torchvision, in place of a path. */
const visionPrefix = 'torchvision:';

interface EstimateArguments {
  readonly mode: (typeof modes)[number];
  readonly batch?: number;
  readonly seq?: number;
  readonly image?: number;
  readonly precision: (typeof precisions)[number];
  readonly optimizer: (typeof optimizers)[number];
  readonly checkpointing?: boolean;
  readonly lora?: number;
  readonly gpu?: string;
  /** `auto` traces: there is no other method yet. */
  readonly method: (typeof methods)[number];
  readonly script?: string;
  readonly arg: readonly string[];
  readonly python?: string;
  readonly config?: string;
  readonly json?: boolean;
}

export const estimateCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[model]', 'a config.json, or a folder that holds one; torchvision:NAME')
      .option('--mode <mode>', 'train or infer', oneOfArgument('--mode', modes), 'train')
      .option('--batch <n>', 'samples in a batch', countArgument('--batch'))
      .option('--seq <n>', 'tokens in a sequence', countArgument('--seq'))
      .option('--image <n>', "pixels of an image's edge", countArgument('--image'))
      .option(
        '--precision <precision>',
        precisions.join(', '),
        oneOfArgument('--precision', precisions),
        'fp32',
      )
      .option(
        '--optimizer <optimizer>',
        optimizers.join(', '),
        oneOfArgument('--optimizer', optimizers),
        'adamw',
      )
      .option('--checkpointing', 'gradient checkpointing')
      .option('--lora <rank>', 'train adapters on all linear layers', countArgument('--lora'))
      .option('--gpu <name>', 'on this card, such as h100 or 4090 (h200)')
      .option(
        '--method <method>',
        'auto or trace: run a few steps without memory, in Python',
        oneOfArgument('--method', methods),
        'auto',
      )
      .option('--script <file.py>', 'instead of a model: a file that defines workload(**args)')
      .option('--arg <key=value>', 'an argument of workload; may be repeated', keyValue, [])
      .option('--python <program>', 'the Python that has torch (the active one)')
      .option('--config <file>', 'this configuration file instead of plimsoll.config.json')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Examples:
  plimsoll estimate gpt2/config.json --batch 8 --seq 1024 --precision bf16
  plimsoll estimate --script train.py --arg layers=12 --gpu a100-80gb --json`,
      )
      .action(
        context.action((model: string | undefined, given: EstimateArguments) =>
          estimate(model, given, context.io),
        ),
      );
  },
};

async function estimate(
  model: string | undefined,
  given: EstimateArguments,
  io: CliIo,
): Promise<number> {
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const gpu = findGpu(given.gpu ?? tracedGpu, settings.gpus);
  const source = await sourceOf(model, given, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const { python } = given;
  const options = { python, environment, folder, signal: stop.signal };
  const trace = await pythonTrace(source, workloadOf(given, source), options).catch(
    (error: unknown) => {
      if (stop.interruptedBy === undefined) throw error;
      return undefined;
    },
  );
  if (trace === undefined) return stop.interruptedBy ?? 0;
  const answer = tracedEstimate(trace, gpu);
  if (given.json) printJson(io, answer);
  else {
    const text = { gpu, columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${estimateText(answer, text)}\n`);
  }
  return 0;
}

async function sourceOf(
  model: string | undefined,
  { script, arg }: EstimateArguments,
  folder: string,
): Promise<TraceSource> {
  if (script !== undefined) {
    if (model !== undefined)
      throw badUsage('Both a model and --script were given.', 'Leave one of them out.');
    return { kind: 'script', path: resolve(folder, script), args: arg };
  }
  if (model === undefined)
    throw badUsage('No model was given.', 'Name a config.json, or a --script.');
  if (arg.length > 0)
    throw badUsage('--arg is for a --script, and none was given.', 'Leave it out.');
  if (model.startsWith(visionPrefix)) {
    return { kind: 'torchvision', name: model.slice(visionPrefix.length) };
  }
  // Our own reader has limits that Python's has not, and tells the place of what is wrong.
  const path = resolve(folder, model);
  const { weights } = await readModel(path);
  if (/\.json$/i.test(path) && !/\.index\.json$/i.test(path)) return { kind: 'config', path };
  const isFile = /\.(safetensors|gguf|json)$/i.test(path);
  const config = join(isFile ? dirname(path) : path, 'config.json');
  if (weights !== undefined) await needConfig(config, model);
  return { kind: 'config', path: config };
}

/** Weights alone do not tell what the model computes. */
async function needConfig(config: string, model: string): Promise<void> {
  try {
    await readModel(config);
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'no-config',
      fact: `${model} holds weights, and there is no usable config.json beside them; only a model with its config can be traced.`,
      next: 'Put its config.json there.',
      cause: error,
    });
  }
}

function workloadOf(given: EstimateArguments, source: TraceSource): Workload {
  const { batch, seq, image } = given;
  if (source.kind !== 'script') {
    if (batch === undefined)
      throw badUsage('No --batch was given.', 'Say how many samples a batch has.');
    if (seq === undefined && image === undefined) {
      throw badUsage(
        'Neither --seq nor --image was given.',
        'Say how long a sequence is, or how large an image.',
      );
    }
  }
  return {
    mode: given.mode,
    batch: batch ?? 1,
    sequence: seq,
    image,
    precision: given.precision,
    optimizer: given.optimizer,
    checkpointing: given.checkpointing ?? false,
    loraRank: given.lora,
  };
}

function keyValue(text: string, before: readonly string[]): readonly string[] {
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
