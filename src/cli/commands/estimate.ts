import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { loadSettings } from '../../config/load.js';
import type { EstimateRequest } from '../../estimate/estimate.js';
import { overRanks } from '../../estimate/over-ranks.js';
import { estimateProgram, type ProgramMachine } from '../../estimate/program-estimate.js';
import type { CacheType } from '../../estimate/serving/kv-cache.js';
import { engines, type ServeEngine } from '../../estimate/serving/serve-estimate.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import type { Estimate, Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { openOutputFile } from '../../files/output-file.js';
import { type KeptEstimate, keptProgram } from '../../jobs/daemon/estimates/kept-programs.js';
import { findModel, type NamePlace } from '../../model/names/find-model.js';
import {
  cardOfEstimate,
  type EstimateDocument,
  makeEstimate,
  type PreparedEstimate,
  prepareEstimate,
} from '../../plan/answers/answer-estimate.js';
import { KeptAnswers } from '../../plan/answers/kept-answers.js';
import { chosenGpu } from '../../plan/answers/machine.js';
import { workloadModes } from '../../plan/answers/read-workload.js';
import { answerServing } from '../../plan/answers/serving/answer-serving.js';
import {
  cacheTypeNames,
  isServing,
  servingModes,
} from '../../plan/answers/serving/serving-request.js';
import { isModelName } from '../../plan/answers/source-of.js';
import { renderEstimateHtml, renderOverRanksHtml } from '../../report/estimate-html.js';
import { serveText } from '../../report/estimate-words.js';
import { estimateText, type OverRanks, overRanksText } from '../../report/text/estimate-text.js';
import { shellWords } from '../../units/words.js';
import { keptNote, keptOrMade } from '../answers/kept-answer.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import { badArgument, countArgument, oneOfArgument } from '../options/arguments.js';
import {
  addMachineOptions,
  addModelArgument,
  addParallelOptions,
  addTypeOptions,
  addWorkloadOptions,
  type GpuCounts,
  groupOptions,
  refuseForProgram,
  type WorkloadArguments,
  workloadMachine,
  workloadRequest,
} from '../options/workload-options.js';
import { openLiveProgress } from '../screen/progress.js';
import { stopOnSignals } from '../stop.js';

export const estimateCommand: CommandModule = {
  define(command, context) {
    const unset = {
      precision: 'as the model is published; amp-bf16 to train it',
      optimizer: 'adamw',
    };
    const withWorkload = addWorkloadOptions(addModelArgument(command), unset, estimateModes);
    addParallelOptions(addServingOptions(addTypeOptions(addMachineOptions(withWorkload))))
      .option(
        '--accumulation <n>',
        'batches whose gradients are added up before a step (1)',
        countArgument('--accumulation'),
      )
      .option('--savings', 'trace what other settings would save, too (some seconds each)')
      .option('--cwd-copy', 'with a program: run it in a copy of its folder')
      .option('--verbose', 'with a program: show what it prints, on stderr')
      .option('--html <file>', 'write the estimate as one HTML page')
      .option('--json', 'print one JSON document on stdout');
    groupOptions(command, optionGroups);
    command
      .addHelpText(
        'after',
        `
Without Python, torch or transformers, known model families are estimated by formula. The exit code is
0 whether or not the model fits the GPU; the exit code of "plimsoll plan" says whether it fits.

A program after -- runs unmodified on a simulated GPU until each of its phases was seen. The files it
saves are discarded. Its other side effects are real: network requests, for example.

Examples:
  plimsoll estimate -- python train.py --epochs 3
  plimsoll estimate --gpu a100-80gb --cwd-copy -- torchrun --nproc-per-node 4 train.py
  plimsoll estimate llama-3-8b --batch 1 --seq 2048 --precision bf16 --lora 16 --gpu 4090
  plimsoll estimate --parameters 22b --batch 1 --seq 2048
  plimsoll estimate gpt2/config.json --batch 8 --seq 1024 --precision bf16
  plimsoll estimate llama/ --mode infer --batch 1 --seq 4096 --quantization int4 --gpu 4090
  plimsoll estimate llama/ --mode generate --batch 8 --prompt 512 --new 256 --beams 4
  plimsoll estimate llama/ --mode serve --engine vllm --max-model-len 8192 --gpu h100
  plimsoll estimate llama-3-8b --batch 1 --seq 4096 --gpus 8 --parallel fsdp2 --gather-precision bf16
  plimsoll estimate llama-3-8b --batch 1 --seq 4096 --gpus 2..512 --parallel fsdp2 --html ranks.html
  plimsoll estimate torchvision:resnet50 --batch 32 --image 224 --savings --html resnet.html
  plimsoll estimate --script train.py --arg layers=12 --gpu a100-80gb --json`,
      )
      .action(
        context.action((words: readonly string[], given: EstimateArguments) => {
          if (words.length > 1) return estimateOfProgram(words, onOneCount(given), context);
          const [model] = words;
          if (isServing({ mode: given.mode }))
            return estimateServing(model, onOneCount(given), context);
          const { gpus, ...other } = given;
          return typeof gpus === 'object'
            ? estimateOverRanks(model, gpus, other, context)
            : estimate(model, { ...other, gpus }, context);
        }),
      );
  },
};

async function estimate(
  model: string | undefined,
  given: OnOneCount,
  { io, version }: CommandContext,
): Promise<number> {
  refuseServing(given);
  refuseCopy(given);
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const program = 'plimsoll estimate -- python train.py';
  const machine = workloadMachine(settings, io, { ...given, program });
  const request = await prepareEstimate(workloadRequest(model, given, folder), machine);
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const onProgress = io.stderr.isTerminal
    ? (text: string, share?: number) => progress.show(text, share)
    : undefined;
  const make = () =>
    makeEstimate(request, { ...machine, signal: stop.signal, onProgress }, given.savings);
  const asked = {
    prepared: request,
    settings: ['estimate', given.savings ?? false],
    version,
    place: machine,
    estimateIn: (found: EstimateDocument) => found,
    make,
  };
  const answer = await (given.cache === false ? make() : keptOrMade(asked))
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (answer === undefined) return stop.interruptedBy ?? 0;
  page?.write(renderEstimateHtml({ estimate: answer, ...request, version }));
  print(answer, request, given, io, wholeCommand(model, given, request));
  return 0;
}

function print(
  answer: EstimateDocument,
  { gpu, workload }: EstimateRequest,
  { json, html }: OnOneCount,
  io: CliIo,
  command: string | undefined,
): void {
  if (json) {
    printJson(io, answer);
    return;
  }
  // Of a training `plan` tells it, with the memory of the whole step.
  const recommended = workload.mode === 'infer' ? answer.recommendedQuantization : undefined;
  const text = { gpu, columns: io.stdout.columns(), style: textStyle(io), recommended, command };
  io.stdout.write(`${estimateText(answer, text)}\n`);
  if (html !== undefined) io.stdout.write(`Written to ${html}.\n`);
}

/** Options that do not change what is estimated. */
const beside: ReadonlySet<string> = new Set(['json', 'html', 'verbose', 'cache']);

/**
 * The command with what was assumed, so that it can be typed again and changed; undefined where
 * nothing was assumed.
 */
function wholeCommand(
  model: string | undefined,
  given: OnOneCount,
  { source, workload, gpu }: EstimateRequest,
): string | undefined {
  if (source.kind === 'script') return undefined;
  const { batch, sequence, image, precision, optimizer, mode } = workload;
  const all = {
    mode,
    batch,
    seq: sequence,
    image,
    precision,
    optimizer: mode === 'train' ? optimizer : undefined,
    gpu: gpu.aliases[0] ?? gpu.name,
  };
  const stated: Readonly<Record<string, unknown>> = { ...given };
  const assumed = Object.entries(all).filter(([name]) => stated[name] === undefined);
  if (assumed.every(([, value]) => value === undefined)) return undefined;
  const words = [...Object.entries(stated), ...assumed].flatMap(([name, value]) =>
    beside.has(name) ? [] : optionWords(name, value),
  );
  return shellWords(['plimsoll', 'estimate', ...(model === undefined ? [] : [model]), ...words]);
}

function optionWords(name: string, value: unknown): readonly string[] {
  const option = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  if (value === undefined) return [];
  if (Array.isArray(value)) return value.flatMap((one) => optionWords(name, one));
  if (typeof value === 'boolean') return [value ? `--${option}` : `--no-${option}`];
  return [`--${option}`, typeof value === 'string' ? value : JSON.stringify(value)];
}

/** The options that most people need stand first in the help. */
const optionGroups = {
  'Options used most:': [
    ...['--mode', '--batch', '--seq', '--precision', '--optimizer', '--checkpointing'],
    ...['--lora', '--quantization', '--gpu', '--gpus', '--parallel', '--json'],
  ],
  'Text generation and serving:': [
    ...['--prompt', '--new', '--beams', '--engine', '--max-model-len'],
    ...['--gpu-memory-utilization', '--kv-precision'],
  ],
  'Several GPUs:': [
    ...['--tp', '--nodes', '--gather-precision', '--reduce-precision', '--no-reshard'],
    ...['--fsdp-strategy', '--no-orig-params', '--bucket-mb', '--bucket-view', '--offload'],
  ],
};

/** How a model is run for an estimate. */
const estimateModes = [...workloadModes, ...servingModes] as const;

/** What `plimsoll estimate` takes; what was not given is absent. */
interface EstimateArguments extends Omit<WorkloadArguments, 'mode' | 'gpus'> {
  readonly gpus?: GpuCounts;
  readonly mode?: (typeof estimateModes)[number];
  readonly prompt?: number;
  readonly new?: number;
  readonly beams?: number;
  readonly engine?: ServeEngine;
  readonly maxModelLen?: number;
  readonly gpuMemoryUtilization?: number;
  readonly kvPrecision?: CacheType;
  readonly savings?: boolean;
  readonly verbose?: boolean;
  readonly cwdCopy?: boolean;
  readonly html?: string;
  readonly json?: boolean;
}

/** What the modes `generate` and `serve` take beside what all do. */
function addServingOptions(command: Command): Command {
  return command
    .option('--prompt <n>', 'generate: tokens of the prompt', countArgument('--prompt'))
    .option('--new <n>', 'generate: new tokens', countArgument('--new'))
    .option('--beams <n>', 'generate: beams (1)', countArgument('--beams'))
    .option(
      '--engine <name>',
      `serve: ${engines.join(', ')} (vllm; llama.cpp for a .gguf)`,
      oneOfArgument('--engine', engines),
    )
    .option(
      '--max-model-len <n>',
      "serve: tokens of the longest request, its answer included (the model's own)",
      countArgument('--max-model-len'),
    )
    .option(
      '--gpu-memory-utilization <share>',
      'serve: the share of the card that vLLM takes (0.9)',
      shareArgument,
    )
    .option(
      '--kv-precision <name>',
      `serve: data type of the KV cache: ${cacheTypeNames.join(', ')}`,
      oneOfArgument('--kv-precision', cacheTypeNames),
    );
}

/** A model has no folder to copy. */
function refuseCopy({ cwdCopy }: OnOneCount): void {
  if (cwdCopy !== true) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--cwd-copy is for a program.',
    next: 'Name the program after --, or leave it out.',
  });
}

/** An option that does nothing would mislead. */
function refuseServing(given: OnOneCount): void {
  const { prompt, new: written, beams, engine, maxModelLen, kvPrecision } = given;
  const ofMode = [
    ['generate', { '--prompt': prompt, '--new': written, '--beams': beams }],
    [
      'serve',
      {
        '--engine': engine,
        '--max-model-len': maxModelLen,
        '--gpu-memory-utilization': given.gpuMemoryUtilization,
        '--kv-precision': kvPrecision,
      },
    ],
  ] as const;
  for (const [mode, options] of ofMode) {
    const [option] = Object.entries(options).find(([, value]) => value !== undefined) ?? [];
    if (option === undefined) continue;
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `${option} is for --mode ${mode}.`,
      next: `Add --mode ${mode}, or leave it out.`,
    });
  }
}

function shareArgument(text: string): number {
  const share = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (share > 0 && share <= 1) return share;
  const next = 'It takes a share above 0 and up to 1, such as 0.9.';
  throw badArgument('--gpu-memory-utilization', text, next);
}

/** The same with one number of GPUs. */
type OnOneCount = Omit<EstimateArguments, 'gpus'> & { readonly gpus?: number | undefined };

/** A range of GPUs is a question of its own, which only a model that is trained on them answers. */
function onOneCount({ gpus, ...given }: EstimateArguments): OnOneCount {
  if (typeof gpus !== 'object') return { ...given, gpus };
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: 'A range of GPUs is only for a model that is trained on them.',
    next: 'Name a model and --parallel, or one number of GPUs.',
  });
}

/** What a program takes beside its own arguments. */
const taken = new Set([
  'gpu',
  'gpus',
  'cwdCopy',
  'python',
  'cache',
  'config',
  'html',
  'json',
  'verbose',
]);

/** `plimsoll estimate -- python train.py`. */
async function estimateOfProgram(
  command: readonly string[],
  given: OnOneCount,
  { io, version }: CommandContext,
): Promise<number> {
  refuseForProgram(given, taken);
  programCommand(command);
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  const { gpu, notes } = await chosenGpu(given.gpu, machine);
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const shown = io.stderr.isTerminal && given.verbose !== true;
  if (shown) progress.show('Starting the program without a GPU');
  const asked = { command, gpu, cards: given.gpus, inCopy: given.cwdCopy };
  const traced: ProgramMachine = {
    ...machine,
    signal: stop.signal,
    onProgress: shown ? (text: string, share?: number) => progress.show(text, share) : undefined,
    onOutput: given.verbose === true ? (text) => io.stderr.write(text) : undefined,
  };
  // What a program prints is seen only while it runs.
  const anew = given.cache === false || given.verbose === true;
  const kept = new KeptAnswers(join(homeFolder(environment), 'answers'));
  const found = await (anew
    ? estimateProgram(asked, traced).then((one): KeptEstimate => ({ estimate: one }))
    : keptProgram(asked, traced, { kept, version })
  )
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  const { estimate: made, keptAt } = found;
  const ofCache = keptAt === undefined ? [] : [keptNote(keptAt)];
  const answer = {
    ...made,
    gpu: cardOfEstimate(gpu),
    notes: [...notes, ...made.notes, ...ofCache],
  };
  page?.write(renderEstimateHtml({ estimate: answer, program: command, gpu, version }));
  if (given.json) printJson(io, answer);
  else {
    const text = { gpu, columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${estimateText(answer, text)}\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return 0;
}

/** Where the config of a model lies that was named by its path or its name. */
async function pathOfModel(
  model: string,
  place: NamePlace & { readonly folder: string },
): Promise<string> {
  const path = resolve(place.folder, model);
  if (!isModelName(model) || existsSync(path)) return path;
  const { source } = await findModel(model, place);
  return source.kind === 'path' ? source.path : path;
}

/** `plimsoll estimate MODEL --mode generate`, and `--mode serve`. */
async function estimateServing(
  model: string | undefined,
  given: OnOneCount,
  { io }: CommandContext,
): Promise<number> {
  const { python, hub, config, cache: _, json = false, verbose: _shown, ...asked } = given;
  refuseCopy(given);
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: config });
  const machine = workloadMachine(settings, io, { python, hub });
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const onProgress = io.stderr.isTerminal
    ? (text: string, share?: number) => progress.show(text, share)
    : undefined;
  const path =
    model === undefined ? undefined : await pathOfModel(model, { hub, folder, environment });
  const request = { ...asked, model: path };
  const found = await answerServing(request, { ...machine, signal: stop.signal, onProgress })
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  if (json) {
    printJson(io, found);
    return 0;
  }
  const { gpu } = await chosenGpu(given.gpu, machine);
  const text = { gpu, columns: io.stdout.columns(), style: textStyle(io) };
  const served = found.serve === undefined ? '' : `${serveText(found.serve)}\n\n`;
  io.stdout.write(`${served}${estimateText(found, text)}\n`);
  return 0;
}

/** `plimsoll estimate MODEL --parallel fsdp2 --gpus 2..512`. */
async function estimateOverRanks(
  model: string | undefined,
  counts: readonly number[],
  given: OnOneCount,
  { io, version }: CommandContext,
): Promise<number> {
  refuseServing(given);
  refuseCopy(given);
  if (given.savings === true) throw savingsOfMany();
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  // All of them before any is traced: what cannot be shared out evenly ends it at once.
  const prepared = new Map<number, PreparedEstimate>();
  for (const gpus of counts) {
    const request = workloadRequest(model, { ...given, gpus }, folder);
    prepared.set(gpus, await prepareEstimate(request, machine));
  }
  const [first] = prepared.values();
  const { parallel } = first?.workload ?? {};
  if (first === undefined || parallel === undefined) return 0;
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const made: Estimate[] = [];
  const estimateOf = async ({ parallel: on }: Workload): Promise<Estimate> => {
    const gpus = on?.gpus ?? 0;
    const request = prepared.get(gpus) ?? first;
    const onProgress = io.stderr.isTerminal
      ? (text: string, share?: number) => progress.show(`${gpus} GPUs: ${text}`, share)
      : undefined;
    const make = () => makeEstimate(request, { ...machine, signal: stop.signal, onProgress });
    // The same as the answer for this count alone: each of the two is kept for the other.
    const asked = {
      prepared: request,
      settings: ['estimate', false],
      version,
      place: machine,
      estimateIn: (found: Estimate) => found,
      make,
    };
    const found = await (given.cache === false ? make() : keptOrMade(asked));
    made.push(found);
    return found;
  };
  const points = await overRanks(counts, first.workload, estimateOf)
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (points === undefined) return stop.interruptedBy ?? 0;
  const found: OverRanks = {
    parallel: parallel.way,
    gpu: cardOfEstimate(first.gpu),
    overRanks: points,
    notes: sharedNotes(made),
  };
  page?.write(renderOverRanksHtml({ found, ...first, version }));
  if (given.json) printJson(io, { method: 'trace', ...found });
  else {
    io.stdout.write(`${overRanksText(found, io.stdout.columns(), textStyle(io))}\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return 0;
}

/** What holds for all counts. */
function sharedNotes(made: readonly Estimate[]): readonly string[] {
  const [first, ...others] = made;
  return (first?.notes ?? []).filter((note) => others.every(({ notes }) => notes.includes(note)));
}

function savingsOfMany(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--savings is for one number of GPUs.',
    next: 'Name one, such as --gpus 8, or leave --savings out.',
  });
}
