import { dirname, join } from 'node:path';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import type { Check } from '../../doctor/checks.js';
import { examine } from '../../doctor/examine.js';
import { changeFiles } from '../../files/change-files.js';
import { versioned } from '../../files/document-version.js';
import { homeFolder } from '../../files/home-folder.js';
import { makeFolder } from '../../files/make-folder.js';
import { openOutputFile } from '../../files/output-file.js';
import { type Advice, inOrder } from '../../optimize/advice.js';
import {
  configurationChange,
  environmentChange,
  type PlannedChange,
} from '../../optimize/apply.js';
import { type Optimization, optimizeDocument, optimizeModes } from '../../optimize/document.js';
import { type MachineLook, machineLook } from '../../optimize/machine-advice.js';
import { renderOptimizeHtml } from '../../report/optimize/html.js';
import { optimizeText } from '../../report/optimize/text.js';
import { systemClock } from '../../time/clock.js';
import { undoChange } from '../answers/undo-change.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { checkUsage, type OptimizeArguments } from '../optimizing/arguments.js';
import { type TrainingFound, trainModel } from '../optimizing/train-model.js';
import { adviseNode, trainProgram } from '../optimizing/train-program.js';
import { devicesArgument, durationArgument, sizeArgument } from '../options/arguments.js';
import { settingsOf } from '../options/watch-options.js';
import { workloadMachine } from '../options/workload-machine.js';
import {
  addMachineOptions,
  addModelArgument,
  addWorkloadOptions,
} from '../options/workload-options.js';
import { withStop } from '../running/run-watch.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { type Stop, stopOnSignals } from '../stop.js';

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
        "memory limit for PyTorch's allocator, such as 24GiB",
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
