import { availableParallelism, freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { changeFiles } from '../../files/change-files.js';
import { versioned } from '../../files/document-version.js';
import { homeFolder, makeFolder } from '../../files/folders.js';
import { openOutputFile } from '../../files/output-file.js';
import { publishedName } from '../../model/names/find-model.js';
import { makeEstimate, prepareEstimate } from '../../plan/answers/answer-estimate.js';
import { makePlan, preparePlan } from '../../plan/answers/answer-plan.js';
import { type AnswerMachine, chosenGpu } from '../../plan/answers/machine.js';
import { loadingOf } from '../../plan/answers/plan-loading.js';
import { budgetOf, type PlanBudget, type PreparedPlan } from '../../plan/answers/plan-request.js';
import { fitOf } from '../../plan/fit/fit.js';
import type { Plan } from '../../plan/fit/types.js';
import { programSettings } from '../../plan/programs/plan-program.js';
import { quantizationFile } from '../../plan/quantization/quantization-file.js';
import { settingOptions } from '../../report/estimate-words.js';
import { placeholdersOf } from '../../run/placeholders.js';
import { systemClock } from '../../time/clock.js';
import { MiB } from '../../units/bytes.js';
import { shellWords } from '../../units/words.js';
import { type Advice, inOrder } from '../advice/advice.js';
import {
  changed,
  configurationChange,
  environmentChange,
  type PlannedChange,
} from '../advice/apply.js';
import { type Check, examine } from '../advice/doctor.js';
import { type MachineLook, machineLook } from '../advice/machine-advice.js';
import { nodeAdvice, nodeCommand } from '../advice/node-advice.js';
import {
  type Optimization,
  type OptimizeMode,
  optimizeDocument,
  optimizeModes,
  optimizeText,
  renderOptimizeHtml,
} from '../advice/optimize-report.js';
import {
  type LoadingSettings,
  loadingAdvice,
  loadingSettings,
  modelPaste,
  partsAdvice,
  programPaste,
  savingsAdvice,
  type TrainingAnswer,
  type TrainingSettings,
} from '../advice/training-answer.js';
import { type ProgramPlanMachine, tracedProgramPlan } from '../answers/program-plan.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import { devicesArgument, durationArgument, sizeArgument } from '../options/arguments.js';
import { undoChange } from '../options/environment-mode.js';
import { settingsOf } from '../options/watch-options.js';
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
import { type Stop, stopOnSignals } from '../stop.js';
import { withStop } from '../watching.js';

/** Long enough to see what grows fast and which card does nothing; the whole answer takes 3 s at most. */
const quickSeconds = 1;

export const optimizeCommand: CommandModule = {
  define(command, context) {
    addMachineOptions(
      addWorkloadOptions(addModelArgument(command), { mode: 'quick' }, optimizeModes),
    )
      .option(
        '--watch <seconds>',
        `how long to watch the machine (${quickSeconds}); finding a leak takes 30`,
        durationArgument('--watch'),
      )
      .option(
        '--memory <size>',
        'memory that the device offers, CUDA context included, such as 24GiB',
        sizeArgument('--memory'),
      )
      .option('--apply', 'write the environment file, the configuration and the loading choice')
      .option('--undo', 'put back what the last --apply wrote')
      .option('--report <file>', 'write the answer to a file: .json or .html')
      .option('--devices <ids...>', 'only these devices, such as 0 1 host', devicesArgument)
      .option('--simulate <scenario>', 'a simulated GPU: a scenario by name, or a trace.json')
      .option('--verbose', 'with a program: show its output on stderr')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
quick looks at this machine now: who holds memory, what grows, what is left over, which settings of the
environment cost time. training plans a model, or a program after --: batch, precision, checkpointing,
data loading, ready to paste. full does both, and checks the installation. Each advice says what to type
and what it saves; what saves most comes first. The exit code is 1 when the training does not fit.

Examples:
  plimsoll optimize --mode quick
  plimsoll optimize --mode quick --watch 30 --report machine.html
  plimsoll optimize --mode training llama-3-8b --gpu 4090 --seq 2048 --lora 16
  plimsoll optimize --mode training --gpu h100 -- python train.py --batch-size {batch_size}
  plimsoll optimize --mode full gpt2 --memory 24GiB --seq 1024 --apply
  plimsoll optimize --undo`,
      )
      .action(
        context.action((words: readonly string[], given: OptimizeArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            optimize(words, given, context, stop),
          ),
        ),
      );
  },
};

async function optimize(
  words: readonly string[],
  given: OptimizeArguments,
  { io, version }: CommandContext,
  stop: Stop,
): Promise<number> {
  checkUsage(words, given);
  const { folder, environment } = io;
  const kept = join(homeFolder(environment), 'optimizations');
  if (given.undo) return undoChange(kept, given.json === true, io);
  const settings = await settingsOf(given, io);
  const report = given.report === undefined ? undefined : openOutputFile(given.report, folder);
  const found = await findings(words, given, settings, io, stop).catch((error: unknown) => {
    if (stop.interruptedBy === undefined) throw error;
    return undefined;
  });
  if (found === undefined || stop.interruptedBy !== undefined) return stop.interruptedBy ?? 0;
  const apply = given.apply === true && found.changes.length > 0;
  if (apply) {
    for (const { path } of found.changes) makeFolder(dirname(path));
    changeFiles(kept, found.changes, new Date(systemClock.epochMs()));
  }
  const answer: Optimization = { ...found, applied: apply };
  const isPage = given.report !== undefined && !given.report.toLowerCase().endsWith('.json');
  report?.write(
    isPage
      ? renderOptimizeHtml(answer, version)
      : `${JSON.stringify(versioned(optimizeDocument(answer)), undefined, 2)}\n`,
  );
  if (given.json) printJson(io, optimizeDocument(answer));
  else {
    const text = { columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${optimizeText(answer, text)}\n`);
    if (given.report !== undefined) io.stdout.write(`Written to ${given.report}.\n`);
  }
  return answer.training?.fits === false ? 1 : 0;
}

async function findings(
  words: readonly string[],
  given: OptimizeArguments,
  settings: Settings,
  io: CliIo,
  stop: Stop,
): Promise<Omit<Optimization, 'applied'>> {
  const mode = given.mode ?? 'quick';
  const seconds = given.watch ?? quickSeconds;
  const look = await lookAround(given, settings, seconds, io, stop);
  const trained = mode === 'quick' ? undefined : await train(words, given, settings, io, stop);
  const isWatched = mode !== 'training';
  const advice: Advice[] = [
    ...(isWatched ? look.advice : look.advice.filter(isForJobs)),
    ...(trained?.advice ?? []),
  ];
  const training = trained?.training;
  const changes: PlannedChange[] = [
    ...environmentChange(io.folder, look.context),
    ...(training === undefined ? [] : configurationChange(io.folder, given.config, training)),
    ...(trained?.changes ?? []),
  ];
  return {
    mode,
    watchedSeconds: isWatched ? seconds : 0,
    devices: isWatched ? look.devices : [],
    advice: inOrder(advice),
    training,
    checks: look.checks,
    changes,
    notes: [...look.notes, ...(training?.notes ?? [])],
  };
}

/** In the mode for trainings the machine counts only as far as its environment goes to the job. */
function isForJobs({ code }: Advice): boolean {
  return ['debug-setting', 'environment', 'malformed', 'conflict'].includes(code);
}

async function lookAround(
  given: OptimizeArguments,
  settings: Settings,
  seconds: number,
  io: CliIo,
  { signal }: Stop,
): Promise<MachineLook & { readonly checks?: readonly Check[] }> {
  const { environment, folder } = io;
  const discovery = await openDevices(settings);
  try {
    const checks =
      given.mode === 'full'
        ? await examine({ environment, folder, python: given.python, discovery, signal })
        : undefined;
    const watchSeconds = given.mode === 'training' ? quickSeconds / 10 : seconds;
    const look = await machineLook({
      discovery,
      seconds: watchSeconds,
      signal,
      settings,
      environment,
      checks,
    });
    return { ...look, ...(checks && { checks }) };
  } finally {
    discovery.close();
  }
}

async function train(
  words: readonly string[],
  given: OptimizeArguments,
  settings: Settings,
  io: CliIo,
  { signal }: Stop,
): Promise<Partial<TrainingFound> | undefined> {
  const isNamed = words.length > 0 || given.script !== undefined || given.parameters !== undefined;
  if (!isNamed) return undefined;
  const node = await adviseNode(words, io.environment);
  if (node !== undefined) return { advice: node };
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const onProgress = io.stderr.isTerminal
    ? (text: string, share?: number) => progress.show(text, share)
    : undefined;
  const machine = { ...workloadMachine(settings, io, given), signal, onProgress };
  try {
    if (words.length > 1) {
      return await trainProgram(words, given, settings, { machine, io, signal, progress });
    }
    return await trainModel(words[0], given, settings, machine);
  } finally {
    progress.end();
  }
}

/** What `plimsoll optimize` takes; what was not given is absent. */
interface OptimizeArguments extends Omit<WorkloadArguments, 'mode'> {
  readonly mode?: OptimizeMode;
  readonly watch?: number;
  readonly apply?: boolean;
  readonly undo?: boolean;
  readonly report?: string;
  readonly memory?: number;
  readonly devices?: readonly string[];
  readonly simulate?: string;
  readonly verbose?: boolean;
  readonly json?: boolean;
}

/** Options over the configuration, for the settings that both have. */
function withConfiguration(given: OptimizeArguments, { training }: Settings): OptimizeArguments {
  const { batch, precision, checkpointing } = training;
  return {
    ...given,
    ...(given.batch === undefined && batch !== undefined && { batch }),
    ...(given.precision === undefined && precision !== undefined && { precision }),
    ...(given.checkpointing === undefined && checkpointing !== undefined && { checkpointing }),
  };
}

/**
 * What the job may take of the device: as an option says, as the configuration says, else the load
 * line of the card that was named or found. Undefined where there is neither.
 */
function memoryBudget(
  given: OptimizeArguments,
  settings: Settings,
  gpu: Gpu | undefined,
): number | undefined {
  const { training, loadLinePercent, memoryLimitBytes } = settings;
  if (given.memory !== undefined) return given.memory;
  if (memoryLimitBytes !== undefined) return memoryLimitBytes;
  if (gpu === undefined) return undefined;
  const percent = training.memoryPercent ?? loadLinePercent;
  return Math.floor(((percent / 100) * gpu.capacityBytes) / MiB) * MiB;
}

/** Before anything takes its time. */
function checkUsage(words: readonly string[], given: OptimizeArguments): void {
  const { mode = 'quick' } = given;
  const named = words.length > 0 || given.script !== undefined || given.parameters !== undefined;
  if (given.undo && (named || given.apply || given.report !== undefined)) {
    throw badUsage('--undo stands alone.', 'Write: plimsoll optimize --undo');
  }
  if (mode === 'quick' && named) {
    throw badUsage(
      '--mode quick looks at the machine, not at a model or a program.',
      'Add --mode training, or --mode full for both.',
    );
  }
  if (mode === 'training' && !named) {
    throw badUsage(
      '--mode training needs a model, or a program after --.',
      'Write: plimsoll optimize --mode training gpt2 --gpu 4090',
    );
  }
  if (given.report !== undefined && !/\.(json|html?)$/i.test(given.report)) {
    throw badUsage(
      `--report cannot be "${given.report}".`,
      'Name a file that ends in .json or .html.',
    );
  }
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}

/** What a training part of the answer brings. */
interface TrainingFound {
  readonly training: TrainingAnswer;
  readonly advice: readonly Advice[];
  readonly changes: readonly PlannedChange[];
}

/** How to train a model: its plan, and what each setting saves beside what was asked for. */
async function trainModel(
  model: string | undefined,
  asked: OptimizeArguments,
  settings: Settings,
  machine: AnswerMachine,
): Promise<TrainingFound> {
  const given = withConfiguration(asked, settings);
  const workload = { ...workloadRequest(model, given, machine.folder), mode: 'train' } as const;
  const gpus = await machine.gpusHere();
  const isKnownCard = given.gpu !== undefined || gpus.length > 0;
  const { gpu } = await chosenGpu(given.gpu, machine);
  const memoryBytes = memoryBudget(given, settings, isKnownCard ? gpu : undefined);
  const prepared = await preparePlan({ ...workload, memoryBytes }, machine);
  const plan = await makePlan(prepared, machine);
  const { batch, accumulation } = plan.settings;
  // What single settings save is told beside the batch that was asked for, or that was chosen.
  const beside = { ...workload, batch: workload.batch ?? batch * accumulation };
  const before = await makeEstimate(await prepareEstimate(beside, machine), machine);
  const loading = loadingHere(settings, isKnownCard);
  const { budget } = prepared.request;
  return {
    training: {
      of: model ?? 'The model',
      fits: plan.fits,
      surely: plan.surely,
      settings: plan.settings,
      peakBytes: plan.estimate.peak.leastCapacityBytes,
      capacityBytes: budget.memoryBytes,
      method: plan.estimate.method,
      loading,
      paste: modelPaste(plan.settings, loading, budget.memoryBytes),
      notes: [...plan.notes, ...plan.estimate.notes],
    },
    advice: [...savingsAdvice(before, plan.settings, settingOptions), loadingAdvice(loading)],
    changes: savedQuantization(plan, prepared, machine),
  };
}

/** How to load the weights, kept for `plimsoll.load`, where the plan quantizes them. */
function savedQuantization(
  plan: Plan,
  { request }: PreparedPlan,
  machine: AnswerMachine,
): readonly PlannedChange[] {
  const loading = loadingOf(plan, request, machine);
  if (loading === undefined || request.model === undefined) return [];
  const home = homeFolder(machine.environment);
  const { preset, memory, computeDtype } = loading;
  const model = publishedName(request.model.path, home) ?? request.model.path;
  const file = quantizationFile(home, { model, preset, forTraining: true, computeDtype, memory });
  return changed({
    path: file.path,
    after: file.text,
    what: `how plimsoll.load loads ${model}: ${preset}`,
  });
}

/** How to load data on this machine, for a training on a card or on the host. */
function loadingHere({ loading }: Settings, hasCard: boolean): LoadingSettings {
  return loadingSettings({
    cores: availableParallelism(),
    hostFreeBytes: freemem(),
    gpus: hasCard ? 1 : 0,
    fixed: loading,
  });
}

/** What is of use with a program. */
const forMachine = ['mode', 'watch', 'apply', 'report', 'devices', 'simulate', 'json', 'verbose'];
const taken = new Set([...forMachine, 'batch', 'memory', 'gpu', 'python', 'cache', 'config']);

/** A program on Node: where its heap should end. Undefined where it runs on something else. */
async function adviseNode(
  command: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<TrainingFound['advice'] | undefined> {
  const program = await nodeCommand(command, environment);
  return program && nodeAdvice([program], totalmem());
}

/** How to run a program: traced as it is, or at the batches that {batch_size} tells it. */
async function trainProgram(
  command: readonly string[],
  given: OptimizeArguments,
  settings: Settings,
  tracing: ProgramPlanMachine,
): Promise<TrainingFound> {
  refuseForProgram(given, taken);
  programCommand(command);
  const { machine } = tracing;
  const gpusHere = await machine.gpusHere();
  const isKnownCard = given.gpu !== undefined || gpusHere.length > 0;
  const { gpu, notes } = await chosenGpu(given.gpu, machine);
  const memory = memoryBudget(given, settings, isKnownCard ? gpu : undefined);
  const budget = budgetOf({ memory, gpuNamed: given.gpu !== undefined }, gpu, machine.wording);
  const found = await traced(command, withConfiguration(given, settings), gpu, budget, tracing);
  const loading = loadingHere(settings, isKnownCard);
  const { estimate } = found;
  return {
    training: {
      of: shellWords(command),
      fits: found.fits,
      surely: found.surely,
      settings: found.settings,
      peakBytes: estimate.peak.leastCapacityBytes,
      capacityBytes: budget.memoryBytes,
      method: estimate.method,
      loading,
      paste: programPaste(found.command, budget.memoryBytes),
      notes: [...notes, ...found.notes, ...estimate.notes],
    },
    advice: [...partsAdvice(estimate), loadingAdvice(loading)],
    changes: [],
  };
}

interface TracedProgram {
  readonly estimate: Estimate;
  readonly settings: TrainingSettings;
  readonly fits: boolean;
  readonly surely: boolean;
  readonly command: readonly string[];
  readonly notes: readonly string[];
}

async function traced(
  command: readonly string[],
  given: OptimizeArguments,
  gpu: Gpu,
  budget: PlanBudget,
  tracing: ProgramPlanMachine,
): Promise<TracedProgram> {
  const { machine, io, signal, progress } = tracing;
  const verbose = given.verbose === true;
  const places = placeholdersOf(command);
  if (places.has('batch_size')) {
    // Without a place for accumulation the effective batch cannot be kept.
    const effectiveBatch = places.has('accumulation') ? given.batch : undefined;
    return tracedProgramPlan({ command, effectiveBatch, budget, gpu, verbose }, tracing);
  }
  const estimate = await estimateProgram(
    { command, gpu },
    {
      ...machine,
      signal,
      onProgress: verbose ? undefined : (text, share) => progress.show(text, share),
      onOutput: verbose ? (text) => io.stderr.write(text) : undefined,
    },
  );
  const fit = fitOf(estimate, budget.memoryBytes);
  return {
    estimate,
    settings: programSettings('unknown', 'unknown'),
    fits: fit !== 'no',
    surely: fit === 'surely',
    command,
    notes: ['Write {batch_size} in the command to have its batch chosen, too.'],
  };
}
