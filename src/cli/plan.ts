import type { Workload } from '../estimate/contract.js';
import { type EstimateMachine, estimate } from '../estimate/estimate.js';
import { Failure } from '../failure.js';
import { openOutputFile } from '../files/output-file.js';
import { planMaxBatch } from '../plan/fit/plan-max-batch.js';
import { planSettings } from '../plan/fit/plan-settings.js';
import {
  type Offload,
  offloads,
  type Plan,
  type PlanEstimators,
  type ZeroStage,
  zeroStages,
} from '../plan/fit/types.js';
import { renderPlanHtml } from '../report/plan-html.js';
import { planText } from '../report/text/plan-text.js';
import { badArgument, countArgument, oneOfArgument, sizeArgument } from './arguments.js';
import type { CommandContext, CommandModule } from './command-module.js';
import { type CliIo, printJson, textStyle } from './io.js';
import { loadingOf, notSaved, saveLoading } from './plan-loading.js';
import { type PlanRequest, planRequest, sourceFor } from './plan-request.js';
import { openProgress, type Progress } from './progress.js';
import { stopOnSignals } from './stop.js';
import {
  addWorkloadOptions,
  type WantedWorkload,
  type WorkloadArguments,
  wantedWorkload,
} from './workload-options.js';

interface PlanArguments extends WorkloadArguments {
  readonly memory?: number;
  readonly train?: boolean;
  readonly maxBatch?: boolean;
  readonly gpus?: number;
  readonly zero?: ZeroStage;
  readonly offload?: Offload;
  readonly save?: boolean;
  readonly html?: string;
  readonly json?: boolean;
}

export const planCommand: CommandModule = {
  define(command, context) {
    addWorkloadOptions(command)
      .option('--memory <size>', "what PyTorch's allocator may take", sizeArgument('--memory'))
      .option('--train', 'the same as --mode train')
      .option('--max-batch', 'keep all settings, and answer the largest batch')
      .option('--gpus <n>', 'share the training out over this many GPUs', countArgument('--gpus'))
      .option('--zero <stage>', 'what ZeRO shares out: 0, 1, 2 or 3 (open)', stageArgument)
      .option(
        '--offload <what>',
        'what waits on the host: none, optimizer or weights (open)',
        oneOfArgument('--offload', offloads),
      )
      .option('--save', 'keep for this model how its weights are to be loaded')
      .option('--html <file>', 'write the plan as one HTML page')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
What is not set is open, and chosen: the fastest that fits, with the least given up. --batch is the
effective batch, which is kept. The exit code is 0 when it fits, and 1 when nothing does.

Examples:
  plimsoll plan ./config.json --memory 24GiB --train
  plimsoll plan gpt2/ --gpu 4090 --batch 64 --seq 1024 --precision amp-bf16
  plimsoll plan gpt2/ --memory 24GiB --max-batch --seq 512 --precision amp-bf16 --json
  plimsoll plan llama/ --gpu 4090 --mode infer --seq 4096 --save`,
      )
      .action(
        context.action((model: string | undefined, given: PlanArguments) =>
          answerPlan(model, given, context),
        ),
      );
  },
};

async function answerPlan(
  model: string | undefined,
  given: PlanArguments,
  { io, version }: CommandContext,
): Promise<number> {
  const wanted = await wantedWorkload(model, withMode(given), io);
  const request = await planRequest(wanted, limitsOf(given));
  const save = given.save === true;
  if (save && request.model === undefined) throw notSaved();
  const page = given.html === undefined ? undefined : openOutputFile(given.html, io.folder);
  const { exitCode, plan: found } = await makePlan(wanted, request, given, io);
  if (found === undefined) return exitCode;
  const plan = { ...found, notes: [...found.notes, ...wanted.notes, ...request.notes] };
  const loading = loadingOf(plan, request, save);
  const savedTo = save && loading ? saveLoading(loading, request, io.environment) : undefined;
  const shown = { budget: request.budget, gpu: wanted.gpu, loading: loading?.arguments };
  const { sequence, image } = request.wishes;
  page?.write(renderPlanHtml({ source: wanted.source, sequence, image, plan, ...shown, version }));
  if (given.json) {
    printJson(io, documentOf(plan, request, shown.loading, savedTo));
  } else {
    const text = { ...shown, columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${planText(plan, text)}\n`);
    if (savedTo !== undefined) io.stdout.write(`Saved to ${savedTo}.\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return exitCode;
}

/** No plan where the person, or whoever reads the answer, left meanwhile. */
async function makePlan(
  wanted: WantedWorkload,
  { wishes, facts }: PlanRequest,
  { maxBatch }: PlanArguments,
  io: CliIo,
): Promise<{ exitCode: number; plan?: Plan }> {
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openProgress(io.stderr);
  const estimators = estimatorsOf(wanted, io, stop.signal, progress);
  try {
    const make = maxBatch ? planMaxBatch : planSettings;
    const plan = await make(wishes, facts, estimators);
    return { exitCode: plan.fits ? 0 : 1, plan };
  } catch (error) {
    if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
    return { exitCode: stop.interruptedBy ?? 0 };
  } finally {
    progress.end();
  }
}

function limitsOf({ memory, zero, offload, gpu, gpus = 1, maxBatch = false }: PlanArguments) {
  return { memory, zero, offload, gpus, maxBatch, gpuNamed: gpu !== undefined };
}

/** The judge is what `estimate` answers; where that takes a trace, the formula guides it. */
function estimatorsOf(
  { source, gpu, method, python }: WantedWorkload,
  { environment, folder, stderr }: CliIo,
  signal: AbortSignal,
  progress: Progress,
): PlanEstimators {
  let count = 0;
  const machineFor = (workload: Workload): EstimateMachine => {
    count += 1;
    const { batch, precision, checkpointing, loraRank } = workload;
    const more = [
      ...(checkpointing ? ['checkpointing'] : []),
      ...(loraRank === undefined ? [] : ['LoRA']),
    ];
    const what = `Estimate ${count}: ${[`batch ${batch}`, precision, ...more].join(', ')}`;
    progress.show(what);
    const onProgress = (text: string) => progress.show(`${what}. ${text}`);
    const shown = stderr.isTerminal ? { onProgress } : {};
    return { python, environment, folder, signal, ...shown };
  };
  return {
    judge: (workload) =>
      estimate(
        { source: sourceFor(source, workload), workload, gpu, method },
        machineFor(workload),
      ),
    guide:
      source.kind !== 'path' || method === 'formula'
        ? undefined
        : async (workload) => {
            try {
              const request = { source, workload, gpu, method: 'formula' } as const;
              return await estimate(request, { environment, folder, signal });
            } catch (error) {
              // A model that no formula knows is planned by its traces alone.
              if (error instanceof Failure && error.kind !== 'interrupted') return undefined;
              throw error;
            }
          },
  };
}

/** As the contract has it first, then all else. */
function documentOf(
  plan: Plan,
  { budget }: PlanRequest,
  loading: unknown,
  savedTo: string | undefined,
): unknown {
  const { fits, settings, estimate: found, alternatives, notes, ...more } = plan;
  return {
    fits,
    settings,
    estimate: found,
    alternatives,
    ...more,
    budget,
    ...(loading !== undefined && { loading }),
    ...(savedTo !== undefined && { savedTo }),
    notes,
  };
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
