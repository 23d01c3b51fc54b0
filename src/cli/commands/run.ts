import { join, resolve } from 'node:path';
import { loadSettings } from '../../config/load.js';
import { machineRoots } from '../../device/roots.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/home-folder.js';
import { type OutputFile, openOutputFile, writeAll } from '../../files/output-file.js';
import { packageFolder } from '../../files/package-folder.js';
import { renderRunHtml } from '../../report/run-html.js';
import { runSummary } from '../../report/text/run-text.js';
import { loadLibc } from '../../run/launch/libc.js';
import { planOutputs } from '../../run/launch/outputs.js';
import { fillCommand } from '../../run/placeholders.js';
import { checkProgram } from '../../run/program.js';
import type { RunContext } from '../../run/run-context.js';
import { newRunId, RunFolder } from '../../run/store/run-folder.js';
import type { RunPlan } from '../../run/store/run-plan.js';
import { takeRun } from '../../run/store/supervisor-lock.js';
import { superviseRun } from '../../run/supervise.js';
import { sweepRuns } from '../../run/sweep.js';
import type { RunReport, RunSettings } from '../../run/types.js';
import { systemClock } from '../../time/clock.js';
import type { CommandModule } from '../command-module.js';
import { type CliIo, printJson } from '../io.js';
import { countArgument, durationArgument, sizeArgument } from '../options/arguments.js';
import { attachedRun } from '../running/run-attach.js';
import { openRunDevice, type RunDevice } from '../running/run-device.js';
import { areOneOutput, ownOutput, silent, sparing } from '../running/run-outputs.js';
import { explainSnapshot } from './explain-snapshot.js';

interface RunArguments {
  readonly batchSize?: number;
  readonly accumulation: number;
  readonly precision: string;
  readonly memory?: number;
  readonly device: string;
  readonly attempts: number;
  readonly grace: number;
  readonly report?: readonly string[];
  readonly attach?: string | boolean;
  readonly config?: string;
  readonly json?: boolean;
}

const defaultAttempts = 8;
const defaultGraceSeconds = 5;
/** The sources and the build lie equally deep below the package. */
const pythonFolder = join(packageFolder, 'python');

export const runCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[command...]', 'the program and its arguments, after --')
      .passThroughOptions()
      .option(
        '--batch, --batch-size <n>',
        'samples of one batch, to begin with',
        countArgument('--batch'),
      )
      .option(
        '--accumulation <n>',
        'microbatches of one step, to begin with',
        countArgument('--accumulation'),
        1,
      )
      .option('--precision <name>', 'the precision to begin with', 'fp32')
      .option('--memory <size>', 'enforced memory limit', sizeArgument('--memory'))
      .option('--device <id>', 'gpu:0, host, or auto (the freest GPU, else the host)', 'auto')
      .option(
        '--attempts <n>',
        'how many attempts to make',
        countArgument('--attempts'),
        defaultAttempts,
      )
      .option(
        '--grace <seconds>',
        'seconds to wait for leftover child processes before killing them',
        durationArgument('--grace'),
        defaultGraceSeconds,
      )
      .option(
        '--report <file>',
        'write the report there: HTML if the file name ends in .html, else JSON; may be repeated',
        addReport,
      )
      .option('--attach [id]', 'take up a run whose supervisor was killed; the latest if not named')
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
In the command {batch_size}, {accumulation}, {checkpointing}, {precision}, {offload}, {device},
{torch_device} and {attempt} are replaced; they are also there as PLIMSOLL_BATCH_SIZE and so on. When
the program runs out of memory it is started again with what it declared by them: a smaller batch with
more accumulation first. The exit code is the program's own, 128 and the signal's number if one ended it.

Examples:
  plimsoll run --batch-size 32 -- python train.py --batch-size {batch_size} --accumulate {accumulation}
  plimsoll run --memory 8GiB --device host --report run.html -- node embed.js
  plimsoll run --attach`;

async function run(
  words: readonly string[],
  given: RunArguments,
  io: CliIo,
  version: string,
): Promise<number> {
  if (process.platform === 'win32') throw notOnWindows();
  const home = homeFolder(io.environment);
  const { proc: procRoot } = machineRoots;
  const attached =
    given.attach === undefined ? undefined : attachedRun(given.attach, home, procRoot);
  if (attached !== undefined && 'report' in attached)
    return printEnd(attached.report, given, io, []);
  if (attached === undefined && words.length === 0) throw noCommand();
  const files = (given.report ?? []).map((path) => openOutputFile(path, io.folder));
  const { folder: cwd, environment } = io;
  const settings = await loadSettings({ folder: cwd, environment, configPath: given.config });
  // Those of jobs are many and come quickly; whoever queued them keeps the house clean.
  if (attached?.plan.log === undefined) sweepRuns(home, procRoot);
  const device = await openRunDevice(attached?.plan.settings.device ?? given.device, settings, {
    wasBegun: attached !== undefined,
    // Only a job of a server has a log: that server looks at the device already.
    sharedBy: attached?.plan.log === undefined ? undefined : home,
  });
  try {
    const context = await contextOf(given, io, { home, version, device, attached });
    const { plan, folder } = attached ?? newRun(words, given, io, home, device);
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

function newRun(
  words: readonly string[],
  given: RunArguments,
  io: CliIo,
  home: string,
  device: RunDevice,
): { plan: RunPlan; folder: RunFolder } {
  const settings: RunSettings = {
    batch_size: given.batchSize ?? 'unknown',
    accumulation: given.accumulation,
    checkpointing: false,
    precision: given.precision,
    offload: false,
    device: device.id,
  };
  const [program = ''] = fillCommand(words, settings, 1);
  checkProgram(program, io.folder, io.environment);
  const id = newRunId(systemClock.epochMs());
  const folder = new RunFolder(home, id);
  makeFolder(folder, home);
  const plan = folder.create({
    schema: 1,
    id,
    command: words,
    folder: io.folder,
    createdAt: new Date(systemClock.epochMs()).toISOString(),
    settings,
    memoryBytes: given.memory ?? null,
    maxAttempts: given.attempts,
    pinnedDevice: given.device !== 'auto',
    reports: (given.report ?? []).map((path) => resolve(io.folder, path)),
  });
  return { plan, folder };
}

async function contextOf(
  given: RunArguments,
  io: CliIo,
  parts: {
    readonly home: string;
    readonly version: string;
    readonly device: RunDevice;
    readonly attached:
      | { readonly plan: RunPlan; readonly environment: RunContext['environment'] }
      | undefined;
  },
): Promise<RunContext> {
  const libc = await loadLibc();
  const stdout = ownOutput(process.stdout);
  const stderr = ownOutput(process.stderr);
  const areOne = areOneOutput();
  const keepStdoutFree = given.json === true;
  // What the job prints goes on to its log by itself; showing it again would double it.
  const hasLog = parts.attached?.plan.log !== undefined;
  return {
    clock: systemClock,
    home: parts.home,
    version: parts.version,
    platform: process.platform,
    procRoot: machineRoots.proc,
    environment: parts.attached?.environment ?? io.environment,
    signals: process,
    libc: 'why' in libc ? undefined : libc,
    libcMissing: 'why' in libc ? libc.why : undefined,
    outputs: {
      plan: planOutputs({
        stdout: hasLog ? sparing(stdout) : stdout,
        stderr: hasLog ? sparing(stderr) : stderr,
        areOne,
        keepStdoutFree,
      }),
      stdout: hasLog ? silent(stdout) : keepStdoutFree ? stderr : stdout,
      stderr: hasLog ? silent(stderr) : stderr,
    },
    pythonFolder,
    explain: explainSnapshot,
    notify(line) {
      // The program's bar may stand on either of them; a line of ours starts one of its own.
      const isFresh = stdout.atLineStart && stderr.atLineStart;
      io.stderr.write(`${isFresh ? '' : '\n'}${line.replaceAll(/\p{Cc}+/gu, ' ')}\n`);
    },
    readDevice: (pids) => parts.device.readDevice(pids),
    patience: { bySelfSeconds: Math.min(1, given.grace), afterTermSeconds: given.grace },
  };
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
  const where = files.at(-1)?.path;
  if (summary !== undefined) {
    io.stderr.write(`plimsoll: ${summary}${where === undefined ? '' : ` Report: ${where}`}\n`);
  }
  return report.exitCode === 'unknown' ? 4 : report.exitCode;
}

function addReport(file: string, before: readonly string[] = []): readonly string[] {
  return [...before, file];
}

function makeFolder(folder: RunFolder, home: string): void {
  try {
    takeRun(folder.path, machineRoots.proc);
  } catch (error) {
    throw new Failure({
      kind: 'missing',
      code: 'cannot-keep-state',
      fact: `The state of a run cannot be written to ${home}: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
}

function noCommand(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-command',
    fact: 'No command was given.',
    next: 'Write it after --, such as: plimsoll run -- python train.py',
  });
}

function notOnWindows(): Failure {
  return new Failure({
    kind: 'missing',
    code: 'not-on-windows',
    fact: '"plimsoll run" needs process groups and signals, which Windows does not have.',
    next: 'Run it inside WSL.',
  });
}
