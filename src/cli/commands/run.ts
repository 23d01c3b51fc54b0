import { resolve } from 'node:path';
import { Option } from 'commander';
import { loadSettings } from '../../config/load.js';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import { machineRoots } from '../../device/roots.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/home-folder.js';
import { type OutputFile, openOutputFile, writeAll } from '../../files/output-file.js';
import type {
  EnvironmentChange,
  JobEnvironmentMode,
} from '../../plan/environment/job-environment.js';
import { explainSnapshot } from '../../report/explain-snapshot.js';
import { renderRunHtml } from '../../report/run-html.js';
import { runEnding } from '../../report/text/run/run-ending.js';
import { runSummary } from '../../report/text/run-text.js';
import { adaptable } from '../../run/adapt/adaptable.js';
import { configuredBatches } from '../../run/adapt/configured-batches.js';
import { otherFlags } from '../../run/adapt/other-flags.js';
import { type NewRunOptions, newRun, runDefaults } from '../../run/new-run.js';
import { openContext } from '../../run/open-context.js';
import { fillCommand, settingsVariables } from '../../run/placeholders.js';
import { checkPlatform } from '../../run/platform.js';
import { watchOrphans } from '../../run/processes/orphans.js';
import { openRunDevice } from '../../run/run-device.js';
import { superviseRun } from '../../run/supervise.js';
import { sweepRuns } from '../../run/sweep.js';
import type { RunReport, RunSettings } from '../../run/types.js';
import { systemClock } from '../../time/clock.js';
import type { CommandModule } from '../command-module.js';
import { type CliIo, errorStyle, printJson } from '../io.js';
import { countArgument, durationArgument, sizeArgument } from '../options/arguments.js';
import {
  changesArgument,
  checkedEnvironment,
  environmentModeArgument,
} from '../options/environment-mode.js';
import { checkVariables } from '../options/not-utf-8.js';
import { checkBeforeRun } from '../running/check-program.js';
import { attachedRun } from '../running/run-attach.js';

interface RunArguments {
  readonly batchSize?: number;
  readonly accumulation: number;
  readonly adapt?: boolean;
  readonly precision: string;
  readonly memory?: number;
  readonly device: string;
  readonly attempts: number;
  readonly grace: number;
  readonly report?: readonly string[];
  readonly attach?: string | boolean;
  readonly check?: boolean;
  readonly envMode?: JobEnvironmentMode;
  readonly envChanges?: readonly EnvironmentChange[];
  readonly state?: string;
  readonly config?: string;
  readonly json?: boolean;
}

export const runCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[command...]', 'the program and its arguments, after --')
      .passThroughOptions()
      .option('--batch, --batch-size <n>', 'initial batch size', countArgument('--batch-size'))
      .option(
        '--accumulation <n>',
        'initial accumulation steps',
        countArgument('--accumulation'),
        1,
      )
      .option(
        '--adapt',
        'change the batch size and accumulation options of the command itself at a restart',
      )
      .option('--precision <name>', 'the precision to begin with', runDefaults.precision)
      .option('--memory <size>', 'enforced memory limit', sizeArgument('--memory'))
      .option(
        '--device <id>',
        'gpu:0, host, or auto (the GPU with the most free memory, else the host)',
        'auto',
      )
      .option(
        '--attempts <n>',
        'maximum number of attempts',
        countArgument('--attempts'),
        runDefaults.maxAttempts,
      )
      .option(
        '--grace <seconds>',
        'seconds to wait for leftover child processes before killing them',
        durationArgument('--grace'),
        runDefaults.graceSeconds,
      )
      .option(
        '--report <file>',
        'write the report to this file: HTML if the name ends in .html, else JSON; may be repeated',
        addReport,
      )
      .option('--check', 'trace the program first; do not start what surely does not fit')
      .option(
        '--env-mode <mode>',
        'production: remove debug settings from the environment; keep: leave them; without it they only cause a warning',
        environmentModeArgument,
      )
      .addOption(new Option('--env-changes <json>').hideHelp().argParser(changesArgument))
      // For jobs of a cluster: their runs are kept on the node, all else in the person's home.
      .addOption(new Option('--state <folder>').hideHelp())
      .option('--attach [id]', 'attach to a run whose supervisor was killed (the latest)')
      .option('--config <file>', 'this configuration file instead of plimsoll.config.json')
      .option('--json', "print the report on stdout; the program's own stdout goes to stderr")
      .addHelpText('after', help)
      .action(
        context.action((words: readonly string[], given: RunArguments) =>
          run(words, given, context.io, context.version),
        ),
      );
  },
};

const help = `
In the command, {batch_size}, {accumulation}, {checkpointing}, {precision}, {offload}, {device},
{torch_device} and {attempt} are replaced; the environment has them as PLIMSOLL_BATCH_SIZE and so on.
When the program runs out of memory, it is started again with other values for the placeholders that
its command has: first a smaller batch with more accumulation. The exit code is the program's own, or
128 plus the number of the signal that ended it; 1 if --check found that it does not fit.

With --adapt, and without placeholders, usual options of the command are changed: --batch-size 8,
--per_device_train_batch_size=8, -b 8, trainer.batch_size=8, --gradient_accumulation_steps 4; or the
same settings in a YAML file that the command names, in a copy of it, or in the configuration of Hydra;
or options that the script declares, with their defaults.

Examples:
  plimsoll run -- python train.py
  plimsoll run --adapt -- python train.py --batch_size=12 --gradient_accumulation_steps=4
  plimsoll run --batch-size 32 -- python train.py --batch-size {batch_size} --accumulate {accumulation}
  plimsoll run --env-mode production -- python train.py
  plimsoll run --memory 8GiB --device host --report run.html -- node embed.js
  plimsoll run --check --device gpu:0 -- python train.py
  plimsoll run --attach`;

async function run(
  words: readonly string[],
  given: RunArguments,
  io: CliIo,
  version: string,
): Promise<number> {
  checkPlatform('plimsoll run');
  const { proc: procRoot } = machineRoots;
  const orphans = watchOrphans(procRoot);
  const home = given.state ?? homeFolder(io.environment);
  const attached =
    given.attach === undefined ? undefined : attachedRun(given.attach, home, procRoot);
  if (attached !== undefined && 'report' in attached)
    return printEnd(attached.report, given, io, []);
  if (attached === undefined && words.length === 0) throw noCommand();
  if (attached !== undefined && given.check === true) throw begunAlready();
  if (attached === undefined) checkVariables(io.environment, () => true);
  const files = (given.report ?? []).map((path) => openOutputFile(path, io.folder));
  const { folder: cwd } = io;
  const { environment, lines, changes } = checkedEnvironment(io.environment, given.envMode, {
    by: 'run',
  });
  if (attached === undefined) {
    for (const line of lines) io.stderr.write(`plimsoll: ${line}\n`);
  }
  const settings = await loadSettings({ folder: cwd, environment, configPath: given.config });
  // Those of jobs are many and come quickly; the daemon that queued them cleans up.
  if (attached?.plan.log === undefined) sweepRuns(home, procRoot);
  const wanted = attached?.plan.settings.device ?? given.device;
  const device = await openRunDevice(wanted, await openDevices(settings), {
    wasBegun: attached !== undefined,
    // Only a job of a server has a log: that server looks at the device already.
    sharedBy: attached?.plan.log === undefined ? undefined : home,
    visible: environment['CUDA_VISIBLE_DEVICES'],
  });
  try {
    if (given.check === true) {
      const refused = await checkFirst(words, device.id, given, settings, io);
      if (refused !== undefined) return refused;
    }
    const context = await openContext({
      home,
      version,
      environment: attached?.environment ?? environment,
      signals: process,
      explain: explainSnapshot,
      device,
      orphans,
      graceSeconds: given.grace,
      keepStdoutFree: given.json === true,
      hasLog: attached?.plan.log !== undefined,
      notify: (line) => io.stderr.write(line),
    });
    const { plan, folder } =
      attached ??
      newRun({
        ...batchOf(words, given, cwd),
        precision: given.precision,
        memoryBytes: given.memory,
        maxAttempts: given.attempts,
        device: device.id,
        isSimulated: device.isSimulated,
        // With a variable that leaves one GPU, the program calls that one its first.
        pinnedDevice: given.device !== 'auto' || device.isOnlyVisible,
        folder: cwd,
        environment,
        environmentChanges: [...(given.envChanges ?? []), ...changes],
        home,
        reports: (given.report ?? []).map((path) => resolve(cwd, path)),
        clock: systemClock,
        procRoot,
      });
    const visibleAs = (id: string) => device.visibleAs(id);
    const report = await superviseRun({ plan, folder, context, visibleAs });
    const { json, html } = folder.reports;
    const kept = [...(attached?.plan.reports ?? []), json, html].map((path) =>
      openOutputFile(path, cwd),
    );
    return printEnd(report, given, io, [...files, ...kept]);
  } finally {
    device.close();
  }
}

/** The exit code where it is not to be started. */
function checkFirst(
  words: readonly string[],
  device: string,
  { batchSize, accumulation, precision, memory, json = false }: RunArguments,
  settings: Settings,
  io: CliIo,
): Promise<number | undefined> {
  const begun: RunSettings = {
    batch_size: batchSize ?? 'unknown',
    accumulation,
    checkpointing: false,
    precision,
    offload: false,
    device: 'gpu:0',
  };
  const command = fillCommand(words, begun, 1, true);
  const variables = settingsVariables(begun, 1, true);
  return checkBeforeRun({ command, variables, device, memoryBytes: memory, json }, settings, io);
}

/** The command, and the batch that it begins with: as it was told, or as its own options say. */
function batchOf(
  words: readonly string[],
  given: RunArguments,
  folder: string,
): Pick<NewRunOptions, 'command' | 'batchSize' | 'accumulation' | 'config'> {
  const { batchSize, accumulation } = given;
  return given.adapt === true && batchSize === undefined
    ? adaptable(words, configuredBatches(words, folder), otherFlags(words, folder))
    : { command: words, batchSize, accumulation };
}

function printEnd(
  report: RunReport,
  given: RunArguments,
  io: CliIo,
  files: readonly OutputFile[],
): number {
  const json = `${JSON.stringify(report, undefined, 2)}\n`;
  try {
    writeAll(
      files.map(
        (file) => [file, /\.html?$/i.test(file.path) ? renderRunHtml(report) : json] as const,
      ),
    );
  } catch (error) {
    // The run is over and its exit code stands; a report that could not be written must not hide it.
    if (!(error instanceof Failure)) throw error;
    io.stderr.write(`plimsoll: ${error.code}: ${error.message}\n`);
  }
  if (given.json) printJson(io, report);
  const summary = runSummary(report);
  const where = given.report?.at(-1) ?? files.at(-1)?.path;
  if (summary !== undefined) {
    // On a line of its own: the summary may end with a command to copy.
    const line = where === undefined ? '' : `plimsoll: report: ${where}\n`;
    io.stderr.write(`plimsoll: ${summary}\n${line}`);
  }
  const ending = runEnding(report, { columns: io.stderr.columns(), style: errorStyle(io) });
  if (ending !== undefined) io.stderr.write(`\n${ending}\n`);
  return report.exitCode === 'unknown' ? 4 : report.exitCode;
}

function addReport(file: string, before: readonly string[] = []): readonly string[] {
  return [...before, file];
}

function begunAlready(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--check is for a program that is not started yet.',
    next: 'Leave out --check or --attach.',
  });
}

function noCommand(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-command',
    fact: 'No command was given.',
    next: 'Write it after --, such as: plimsoll run -- python train.py',
  });
}
