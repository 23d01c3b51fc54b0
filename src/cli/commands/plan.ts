import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { Option } from 'commander';
import { loadSettings } from '../../config/load.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { openOutputFile } from '../../files/output-file.js';
import { publishedName } from '../../model/names/find-model.js';
import {
  makeSharedPlan,
  planDocument,
  preparePlan,
  type SharedPlan,
} from '../../plan/answers/answer-plan.js';
import { type AnswerMachine, chosenGpu } from '../../plan/answers/machine.js';
import { loadingOf, type PlanLoading } from '../../plan/answers/plan-loading.js';
import {
  budgetNote,
  budgetOf,
  type PlanRequest,
  type PreparedPlan,
} from '../../plan/answers/plan-request.js';
import { offloads, type ZeroStage, zeroStages } from '../../plan/fit/types.js';
import { saveQuantization } from '../../plan/quantization/quantization-file.js';
import { type Framework, frameworkNames, frameworks } from '../../plan/snippets/formats.js';
import { planLines } from '../../plan/snippets/plan-lines.js';
import { hasAdaptersApart, planSnippet } from '../../plan/snippets/plan-snippet.js';
import {
  type ProjectFile,
  type Recognised,
  recogniseFramework,
} from '../../plan/snippets/recognise.js';
import { renderPlanHtml } from '../../report/plan-html.js';
import { shardingText } from '../../report/plan-words.js';
import { type PlanSnippet, planText, programPlanText } from '../../report/text/plan-text.js';
import { placeholdersOf } from '../../run/placeholders.js';
import { keptOrMade } from '../answers/kept-answer.js';
import { tracedProgramPlan } from '../answers/program-plan.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import { badArgument, countArgument, oneOfArgument, sizeArgument } from '../options/arguments.js';
import {
  addMachineOptions,
  addModelArgument,
  addWorkloadOptions,
  refuseForProgram,
  type WorkloadArguments,
  workloadMachine,
  workloadRequest,
} from '../options/workload-options.js';
import { openLiveProgress } from '../screen/progress.js';
import { stopOnSignals } from '../stop.js';

/** What `plimsoll plan` takes; what was not given is absent. */
interface PlanArguments extends WorkloadArguments {
  readonly memory?: number;
  readonly allocatorMemory?: number;
  readonly train?: boolean;
  readonly maxBatch?: boolean;
  readonly zero?: ZeroStage;
  readonly save?: boolean;
  readonly verbose?: boolean;
  readonly html?: string;
  readonly format?: PlanFormat;
  readonly json?: boolean;
}

export const planCommand: CommandModule = {
  define(command, context) {
    addMachineOptions(addWorkloadOptions(addModelArgument(command)))
      .option(
        '--memory <size>',
        'memory that the device offers, CUDA context included, such as 24GiB',
        sizeArgument('--memory'),
      )
      .option(
        '--allocator-memory <size>',
        "in place of --memory: memory for PyTorch's allocator alone",
        sizeArgument('--allocator-memory'),
      )
      .option('--train', 'the same as --mode train')
      .option('--max-batch', 'keep all settings, and answer the largest batch')
      .option('--gpus <n>', 'train on this many GPUs', countArgument('--gpus'))
      // Known, so that its refusal says what to give instead.
      .addOption(
        new Option('--accumulation <n>').hideHelp().argParser(countArgument('--accumulation')),
      )
      .option('--zero <stage>', 'ZeRO stage: 0, 1, 2 or 3 (chosen for you)', stageArgument)
      .option(
        '--offload <what>',
        'what is kept in host memory: none, optimizer or weights (chosen for you)',
        oneOfArgument('--offload', offloads),
      )
      .option('--save', 'save how to load the weights of this model')
      .option('--verbose', 'with a program: show its output on stderr')
      .option('--html <file>', 'write the plan as one HTML page')
      .option(
        '--format <name>',
        `how to print the answer: ${planFormats.join(', ')}; a framework gets lines to paste`,
        oneOfArgument('--format', planFormats),
      )
      .option('--json', 'print one JSON document on stdout: the same as --format json')
      .addHelpText(
        'after',
        `
Unset options are chosen for you: the fastest that fits, at the lowest cost in quality. --batch is the
effective batch, which is kept. The exit code is 0 when it surely fits, 5 when it should fit but may
lack memory by the upper end of its interval, and 1 when nothing fits.

A program after -- is traced with a few batch sizes, which replace {batch_size}. With --batch and
{accumulation} the effective batch is kept.

Examples:
  plimsoll plan ./config.json --memory 24GiB --train
  plimsoll plan --memory 24GiB -- python train.py --batch-size {batch_size}
  plimsoll plan qwen2.5-7b --gpu 4090 --batch 16 --seq 2048 --train
  plimsoll plan gpt2/ --gpu 4090 --batch 64 --seq 1024 --precision amp-bf16
  plimsoll plan gpt2/ --gpu 4090 --batch 64 --seq 1024 --train --format trainer
  plimsoll plan gpt2/ --memory 24GiB --max-batch --seq 512 --precision amp-bf16 --json
  plimsoll plan llama-3-8b --gpus 8 --gpu a100-80gb --batch 16 --seq 2048 --train
  plimsoll plan llama/ --gpu 4090 --mode infer --seq 4096 --save`,
      )
      .action(
        context.action((words: readonly string[], given: PlanArguments) =>
          words.length > 1
            ? planOfProgram(words, given, context)
            : runPlan(words[0], given, context),
        ),
      );
  },
};

async function runPlan(
  model: string | undefined,
  given: PlanArguments,
  { io, version }: CommandContext,
): Promise<number> {
  const { folder, environment } = io;
  const format = planFormatOf(given);
  const { memory: memoryBytes, allocatorMemory: allocatorMemoryBytes, maxBatch, zero } = given;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const program = 'plimsoll plan --memory 24GiB -- python train.py --batch-size {batch_size}';
  const machine = workloadMachine(settings, io, { ...given, program });
  const workload = workloadRequest(model, withMode(given), folder);
  const wanted = { ...workload, memoryBytes, allocatorMemoryBytes, maxBatch, zero };
  const prepared = await preparePlan(wanted, machine);
  const { request, source, gpu } = prepared;
  const save = given.save === true;
  if (save && request.model === undefined) throw notSaved();
  const page = given.html === undefined ? undefined : openOutputFile(given.html, folder);
  const { exitCode, plan: found } = await planWithProgress(prepared, machine, io, (make) =>
    given.cache === false
      ? make()
      : keptOrMade({
          prepared,
          settings: ['plan', machine.hostBytes],
          version,
          place: machine,
          estimateIn: (one: SharedPlan) => one.estimate,
          make,
        }),
  );
  if (found === undefined) return exitCode;
  const loading = loadingOf(found, request, machine, save);
  const savedTo = save && loading ? saveLoading(loading, request, environment) : undefined;
  const shown = { budget: request.budget, gpu, loading: loading?.arguments };
  const { sequence, image } = request.wishes;
  page?.write(renderPlanHtml({ source, sequence, image, plan: found, ...shown, version }));
  if (format === 'json') {
    printJson(io, planDocument(found, prepared, { loading: shown.loading, savedTo }));
  } else if (isFramework(format)) {
    const { text, isShared, beside } = planLines(format, found, shown.loading);
    io.stdout.write(`${text}\n`);
    if (beside !== undefined) io.stderr.write(`plimsoll: ${beside}\n`);
    if (!isShared && hasAdaptersApart(format, found.settings)) {
      io.stderr.write(
        `plimsoll: The plan trains adapters of rank ${found.settings.lora}: --format peft has their lines.\n`,
      );
    }
  } else {
    const text = { ...shown, columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${planText(found, { ...text, snippet: snippetFor(found, io) })}\n`);
    if (found.sharding !== undefined) io.stdout.write(`${shardingText(found.sharding)}\n`);
    if (savedTo !== undefined) io.stdout.write(`Saved to ${savedTo}.\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return planExitCode(found, maxBatch);
}

/** What to paste where the project in this folder is known to train with a framework. */
function snippetFor(answer: SharedPlan, { folder }: CliIo): PlanSnippet | undefined {
  const { fits, settings } = answer;
  if (!fits || settings.optimizer === 'none') return undefined;
  const found = projectFramework(folder);
  if (found === undefined) return { formats: frameworks };
  const unadapted = found.framework === 'peft' && settings.lora === 'none';
  const lines = planLines(unadapted ? 'accelerate' : found.framework, answer);
  return {
    name: frameworkNames[found.framework],
    file: found.file,
    text: lines.text,
    ...(lines.beside !== undefined && { beside: lines.beside }),
    ...(hasAdaptersApart(found.framework, settings) && {
      adapters: planSnippet('peft', settings),
    }),
  };
}

/** No plan where the client left meanwhile. */
async function planWithProgress(
  prepared: PreparedPlan,
  machine: AnswerMachine,
  io: CliIo,
  through: (make: () => Promise<SharedPlan>) => Promise<SharedPlan>,
): Promise<{ exitCode: number; plan?: SharedPlan }> {
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const onProgress = io.stderr.isTerminal
    ? (text: string, share?: number) => progress.show(text, share)
    : undefined;
  try {
    const make = () => makeSharedPlan(prepared, { ...machine, signal: stop.signal, onProgress });
    const found = await through(make);
    return { exitCode: 0, plan: found };
  } catch (error) {
    if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
    return { exitCode: stop.interruptedBy ?? 0 };
  } finally {
    progress.end();
  }
}

function withMode(given: PlanArguments): PlanArguments {
  if (!given.train) return given;
  if (given.mode === 'infer') {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: '--train and --mode infer contradict each other.',
      next: 'Leave one of them out.',
    });
  }
  return { ...given, mode: 'train' };
}

function stageArgument(text: string): ZeroStage {
  const stage = zeroStages.find((one) => String(one) === text);
  if (stage === undefined) throw badArgument('--zero', text, 'It takes 0, 1, 2 or 3.');
  return stage;
}

const planFormats = ['text', 'json', ...frameworks] as const;
type PlanFormat = (typeof planFormats)[number];

/** The format that was asked for; `--json` is one of them. */
function planFormatOf(given: {
  readonly format?: PlanFormat | undefined;
  readonly json?: boolean | undefined;
}): PlanFormat {
  const { format, json } = given;
  if (json === true && format !== undefined && format !== 'json') {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `--json and --format ${format} contradict each other.`,
      next: 'Leave one of them out.',
    });
  }
  return json === true ? 'json' : (format ?? 'text');
}

function isFramework(format: PlanFormat): format is Framework {
  return format !== 'text' && format !== 'json';
}

/** It fits by the estimate, but not by the upper end of its interval. */
const mayLackExitCode = 5;

/** 0 surely fits, 5 should fit, 1 does not. The largest batch goes to the limit by itself: 0 there. */
function planExitCode(
  { fits, surely }: { readonly fits: boolean; readonly surely: boolean },
  isLargest = false,
): number {
  if (!fits) return 1;
  return surely || isLargest ? 0 : mayLackExitCode;
}

/** What is of use with a program. */
const workload = ['batch', 'memory', 'allocatorMemory', 'maxBatch', 'gpu'];
const taken = new Set([...workload, 'python', 'cache', 'config', 'json', 'verbose', 'format']);

/** `plimsoll plan --memory 24GiB -- python train.py --batch-size {batch_size}`. */
async function planOfProgram(
  command: readonly string[],
  given: PlanArguments,
  { io }: CommandContext,
): Promise<number> {
  refuseForProgram(given, taken);
  programCommand(command);
  checkPlaces(command, given);
  const format = planFormatOf(given);
  if (isFramework(format)) {
    throw badUsage(
      `--format ${format} is for a model; the plan of a program is the command to run.`,
      'Leave --format out: the answer ends with that command.',
    );
  }
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  const { memory, allocatorMemory } = given;
  const { gpu, isHere, notes } = await chosenGpu(given.gpu, machine);
  const isOpen = memory === undefined && allocatorMemory === undefined;
  const gpuNamed = given.gpu !== undefined || (isOpen && isHere);
  const limits = { memory, allocatorMemory, gpuNamed };
  const budget = budgetOf(limits, gpu, machine.wording);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const found = await tracedProgramPlan(
    { command, effectiveBatch: given.batch, budget, gpu, verbose: given.verbose === true },
    { machine, io, signal: stop.signal, progress },
  )
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  const beside = [budgetNote(limits, budget, gpu, machine.wording), ...notes];
  const plan = { ...found, notes: [...found.notes, ...beside] };
  if (format === 'json') printJson(io, plan);
  else {
    const text = { columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${programPlanText(plan, text)}\n`);
  }
  return planExitCode(plan, given.batch === undefined);
}

function checkPlaces(command: readonly string[], { batch, maxBatch }: PlanArguments): void {
  const places = placeholdersOf(command);
  if (!places.has('batch_size')) {
    throw badUsage(
      'Nothing in the command says where its batch goes.',
      'Write {batch_size} there: plimsoll plan --memory 24GiB -- python train.py --batch-size {batch_size}',
    );
  }
  if (batch === undefined) return;
  if (maxBatch === true)
    throw badUsage('--max-batch and --batch contradict each other.', 'Leave one of them out.');
  if (!places.has('accumulation')) {
    throw badUsage(
      '--batch is kept by accumulation, and the command has no place for it.',
      'Write {accumulation} there, or leave --batch out to find the largest batch.',
    );
  }
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}

/** Keeps it for the model, and answers where. */
function saveLoading(
  loading: PlanLoading,
  { model, wishes }: PlanRequest,
  environment: Readonly<Record<string, string | undefined>>,
): string {
  if (model === undefined) throw notSaved();
  const { preset, memory, computeDtype } = loading;
  const forTraining = wishes.mode === 'train';
  const home = homeFolder(environment);
  return saveQuantization(home, {
    model: publishedName(model.path, home) ?? model.path,
    preset,
    forTraining,
    computeDtype,
    memory,
  });
}

function notSaved(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--save keeps how transformers loads a model, and this is not one of its models.',
    next: 'Leave it out.',
  });
}

/** Imports stand at the beginning; a notebook of megabytes is not read to its end. */
const fileLimitBytes = 64 * 1024;
/** A folder with more programs than this is no project, but a heap. */
const maxFiles = 200;

const names =
  /^(requirements[\w.-]*\.txt|pyproject\.toml|setup\.(py|cfg)|environment\.ya?ml|[\w.-]+\.(py|sh))$/;
/** One level down, where programs usually lie. */
const folders = ['src', 'scripts', 'requirements'];

/** The framework of the project in a folder; undefined where none is seen. */
function projectFramework(folder: string): Recognised | undefined {
  const files = [...filesIn(folder), ...folders.flatMap((one) => filesIn(folder, one))];
  return recogniseFramework(files.slice(0, maxFiles));
}

function filesIn(root: string, below = ''): ProjectFile[] {
  try {
    return readdirSync(join(root, below), { withFileTypes: true })
      .filter((entry) => entry.isFile() && names.test(entry.name))
      .slice(0, maxFiles)
      .map(({ name }) => ({ name: join(below, name), text: beginningOf(join(root, below, name)) }))
      .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  } catch {
    // A folder that is not there, or may not be read, tells nothing.
    return [];
  }
}

function beginningOf(path: string): string {
  const fd = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(fileLimitBytes);
    return buffer.toString('utf8', 0, readSync(fd, buffer, 0, fileLimitBytes, 0));
  } finally {
    closeSync(fd);
  }
}
