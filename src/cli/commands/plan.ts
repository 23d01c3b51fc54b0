import { Option } from 'commander';
import { loadSettings } from '../../config/load.js';
import { Failure } from '../../failure.js';
import { openOutputFile } from '../../files/output-file.js';
import {
  makeSharedPlan,
  planDocument,
  preparePlan,
  type SharedPlan,
} from '../../plan/answers/answer-plan.js';
import type { AnswerMachine } from '../../plan/answers/machine.js';
import { loadingOf } from '../../plan/answers/plan-loading.js';
import type { PreparedPlan } from '../../plan/answers/plan-request.js';
import { offloads, type ZeroStage, zeroStages } from '../../plan/fit/types.js';
import { frameworkNames, frameworks } from '../../plan/snippets/formats.js';
import { planLines } from '../../plan/snippets/plan-lines.js';
import { hasAdaptersApart, planSnippet } from '../../plan/snippets/plan-snippet.js';
import { renderPlanHtml } from '../../report/plan-html.js';
import { shardingText } from '../../report/ranks/sharding-text.js';
import { type PlanSnippet, planText } from '../../report/text/plan-text.js';
import { keptOrMade } from '../answers/kept-answer.js';
import { notSaved, saveLoading } from '../answers/plan-loading.js';
import { projectFramework } from '../answers/project-framework.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { badArgument, countArgument, oneOfArgument, sizeArgument } from '../options/arguments.js';
import type { PlanArguments } from '../options/plan-arguments.js';
import { isFramework, planExitCode, planFormatOf, planFormats } from '../options/plan-format.js';
import { workloadMachine } from '../options/workload-machine.js';
import {
  addMachineOptions,
  addModelArgument,
  addWorkloadOptions,
  workloadRequest,
} from '../options/workload-options.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';
import { planOfProgram } from './plan-program.js';

export const planCommand: CommandModule = {
  define(command, context) {
    addMachineOptions(addWorkloadOptions(addModelArgument(command)))
      .option(
        '--memory <size>',
        "memory limit for PyTorch's allocator, such as 24GiB",
        sizeArgument('--memory'),
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
          words.length > 1 ? planOfProgram(words, given, context) : plan(words[0], given, context),
        ),
      );
  },
};

async function plan(
  model: string | undefined,
  given: PlanArguments,
  { io, version }: CommandContext,
): Promise<number> {
  const { folder, environment } = io;
  const format = planFormatOf(given);
  const { memory: memoryBytes, maxBatch, zero } = given;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  const workload = workloadRequest(model, withMode(given), folder);
  const wanted = { ...workload, memoryBytes, maxBatch, zero };
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
