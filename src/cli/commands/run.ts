import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Option } from 'commander';
import { loadSettings } from '../../config/load.js';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import { machineRoots } from '../../device/kernel-files.js';
import { type FoundGpu, gpuAtHand } from '../../estimate/cards/gpu-at-hand.js';
import { contextBytesOf } from '../../estimate/cards/gpus.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import { type OutputFile, openOutputFile, writeAll } from '../../files/output-file.js';
import type {
  EnvironmentChange,
  JobEnvironmentMode,
} from '../../plan/environment/job-environment.js';
import { memoryTooSmall } from '../../plan/environment/rules.js';
import { surelyTooLarge } from '../../plan/fit/fit.js';
import { explainSnapshot } from '../../report/findings.js';
import { renderRunHtml } from '../../report/run-html.js';
import { runEnding, runSummary } from '../../report/text/run-ending.js';
import { adaptable } from '../../run/adapt/adaptable.js';
import { configuredBatches } from '../../run/adapt/adapted-config.js';
import { otherFlags } from '../../run/adapt/other-flags.js';
import { accountEnvironment } from '../../run/launch/become-order.js';
import { type NewRunOptions, newRun, runDefaults } from '../../run/new-run.js';
import { fillCommand, settingsVariables } from '../../run/placeholders.js';
import { watchOrphans } from '../../run/processes/orphans.js';
import { checkPlatform } from '../../run/program.js';
import { openContext } from '../../run/run-context.js';
import { openRunDevice, type RunDevice } from '../../run/run-device.js';
import {
  damagedRun,
  openJournal,
  readJournal,
  readRunReport,
  unknownRun,
} from '../../run/store/journal.js';
import { isRunId, RunFolder, readNumberFile } from '../../run/store/run-folder.js';
import { planFile, type RunPlan } from '../../run/store/run-plan.js';
import { isSupervised, takeRun } from '../../run/store/supervisor-lock.js';
import { superviseRun } from '../../run/supervise.js';
import { isFinished, sweepRuns, unfinishedRuns } from '../../run/sweep.js';
import { type RunReport, type RunSettings, type SpillMode, spillModes } from '../../run/types.js';
import { systemClock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import { type CliIo, type CommandModule, errorStyle, printJson, textStyle } from '../io.js';
import { countArgument, durationArgument, sizeArgument } from '../options/arguments.js';
import {
  changesArgument,
  checkedEnvironment,
  environmentModeArgument,
} from '../options/environment-mode.js';
import { checkVariables } from '../options/not-utf-8.js';
import { workloadMachine } from '../options/workload-options.js';
import { openLiveProgress } from '../screen/progress.js';
import { stopOnSignals } from '../stop.js';

interface RunArguments {
  readonly batchSize?: number;
  readonly accumulation: number;
  readonly adapt?: boolean;
  readonly precision: string;
  readonly memory?: number;
  readonly allocatorMemory?: number;
  readonly spill: SpillMode;
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
      .option(
        '--memory <size>',
        'enforced memory limit, on a GPU with the CUDA context included',
        sizeArgument('--memory'),
      )
      .option(
        '--allocator-memory <size>',
        "in place of --memory: the limit of PyTorch's allocator alone",
        sizeArgument('--allocator-memory'),
      )
      .addOption(
        new Option(
          '--spill <mode>',
          'memory of a PyTorch program gives way: auto (when it is short), always (from the first step on) or off',
        )
          .choices(spillModes)
          .default('auto'),
      )
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
          runProgram(words, given, context.io, context.version),
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

async function runProgram(
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
    const limit = attached === undefined ? limitOf(given, device, settings) : {};
    if (given.check === true) {
      const refused = await checkFirst(words, device.id, { ...given, ...limit }, settings, io);
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
        ...limit,
        spill: given.spill,
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

/** What the program may take of its device, and what of that the CUDA context takes. */
function limitOf(
  { memory, allocatorMemory }: RunArguments,
  { id, name }: RunDevice,
  { gpus }: Settings,
): Pick<NewRunOptions, 'memoryBytes' | 'contextBytes'> {
  if (memory !== undefined && allocatorMemory !== undefined) throw limitedTwice();
  if (memory === undefined) return { memoryBytes: allocatorMemory };
  if (id === 'host') return { memoryBytes: memory };
  const contextBytes = contextBytesOf(name, gpus);
  if (memory <= contextBytes) throw memoryTooSmall(memory, contextBytes);
  return { memoryBytes: memory, contextBytes };
}

/** The exit code where it is not to be started. */
function checkFirst(
  words: readonly string[],
  device: string,
  {
    batchSize,
    accumulation,
    precision,
    memoryBytes,
    contextBytes,
    json = false,
  }: RunArguments & Pick<NewRunOptions, 'memoryBytes' | 'contextBytes'>,
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
  const limit = { memoryBytes, contextBytes };
  return checkBeforeRun({ command, variables, device, ...limit, json }, settings, io);
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

function limitedTwice(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: 'Both --memory and --allocator-memory were given.',
    next: 'Give one of them: --memory has the CUDA context in it, --allocator-memory does not.',
  });
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

/** A run that is ours now; or, where it had ended already, its report. */
type Attached =
  | { readonly report: RunReport }
  | {
      readonly plan: RunPlan;
      readonly folder: RunFolder;
      /** The job's own; the attacher's where the job is gone. */
      readonly environment: Readonly<Record<string, string | undefined>>;
    };

function attachedRun(wanted: string | boolean, home: string, procRoot: string): Attached {
  const id =
    typeof wanted === 'string' ? wanted : latestWithout(unfinishedRuns(home), home, procRoot);
  const folder = new RunFolder(home, id);
  const isThere = isRunId(id) && existsSync(planFile(folder.path));
  if (!isThere) throw unknownRun(id, unfinishedRuns(home));
  const plan = folder.readPlan();
  if (plan === undefined) throw damagedRun(planFile(folder.path));
  if (isFinished(folder)) return { report: readRunReport(folder.reports.json) };
  const { heldBy } = takeRun(folder.path, procRoot);
  if (heldBy !== undefined) {
    throw new Failure({
      kind: 'input',
      code: 'run-is-supervised',
      fact: `The run ${id} is supervised by process ${heldBy}, which is running.`,
      next: 'There is nothing to resume; wait for that process, or interrupt it.',
    });
  }
  const journal = openJournal(folder.journal);
  journal.write({ type: 'attached', at: new Date().toISOString(), pid: process.pid });
  journal.close();
  const { account } = plan;
  const environment =
    account === undefined
      ? (environmentOf(folder, procRoot) ?? process.env)
      : accountEnvironment(process.env, account);
  return { plan, folder, environment: { ...environment, ...plan.environment } };
}

function latestWithout(open: readonly string[], home: string, procRoot: string): string {
  const free = open.findLast((id) => !isSupervised(new RunFolder(home, id).path, procRoot));
  if (free === undefined) throw unknownRun('without a supervisor', open);
  return free;
}

/** Never written to the disk, for it may hold secrets: it is read from the job while that lives. */
function environmentOf(
  folder: RunFolder,
  procRoot: string,
): Readonly<Record<string, string>> | undefined {
  const last = readJournal(folder.journal).findLast(({ type }) => type === 'started');
  if (last?.type !== 'started') return undefined;
  const pid = readNumberFile(folder.attemptFiles(last.number).jobPid);
  if (pid === undefined) return undefined;
  try {
    const text = readFileSync(join(procRoot, String(pid), 'environ'), 'utf8');
    const pairs = text.split('\0').flatMap((pair) => {
      const at = pair.indexOf('=');
      return at > 0 ? [[pair.slice(0, at), pair.slice(at + 1)] as const] : [];
    });
    return Object.fromEntries(pairs);
  } catch {
    return undefined;
  }
}

/** A program that is to be checked before it is started. */
interface CheckedRun {
  readonly command: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
  /** The device that it will run on. */
  readonly device: string;
  /** What it may take of that; all of it where undefined. */
  readonly memoryBytes: number | undefined;
  /** Left out where `memoryBytes` is the allocator's alone. */
  readonly contextBytes: number | undefined;
  readonly json: boolean;
}

/**
 * Traces a program before it is started. The exit code where it is not to be started: 1 where it
 * surely does not fit, 130 where somebody interrupted. What could not be traced is started, and said.
 */
async function checkBeforeRun(
  run: CheckedRun,
  settings: Settings,
  io: CliIo,
): Promise<number | undefined> {
  programCommand(run.command);
  const machine = workloadMachine(settings, io, {});
  const found = (await machine.gpusHere()).find(({ id }) => id === run.device);
  if (found === undefined) throw noGpu(run.device);
  const { gpu } = gpuAtHand([found], settings.gpus ?? [], machine.wording);
  const { memoryBytes = Infinity, contextBytes } = run;
  const limitBytes = memoryBytes + (contextBytes === undefined ? gpu.context.bytes : 0);
  const capacityBytes = Math.min(gpu.capacityBytes, limitBytes);
  using stop = stopOnSignals([]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  try {
    const estimate = await estimateProgram(
      { command: run.command, gpu },
      {
        ...machine,
        environment: { ...io.environment, ...run.variables },
        signal: stop.signal,
        onProgress: (text, share) => progress.show(`Checking before the start: ${text}`, share),
      },
    );
    if (!surelyTooLarge(estimate, capacityBytes)) return undefined;
    progress.end();
    refuse(estimate, capacityBytes, found, run, io);
    return 1;
  } catch (error) {
    if (stop.interruptedBy !== undefined) return stop.interruptedBy;
    if (!(error instanceof Failure)) throw error;
    progress.line(`plimsoll: not checked, and started all the same: ${error.fact}`);
    return undefined;
  } finally {
    progress.end();
  }
}

function refuse(
  estimate: Estimate,
  capacityBytes: number,
  { id, name }: FoundGpu,
  { json }: CheckedRun,
  io: CliIo,
): void {
  const { leastCapacityBytes } = estimate.peak;
  const fact = `The program needs ${formatBytes(leastCapacityBytes)} (estimated, by trace), and there are ${formatBytes(capacityBytes)} on ${id} (${name}): it was not started.`;
  const next = 'Take a smaller batch ("plimsoll plan -- COMMAND" finds one), or leave --check out.';
  io.stderr.write(`plimsoll: does-not-fit: ${fact} ${next}\n`);
  if (json) printJson(io, { outcome: 'refused', fits: false, capacityBytes, estimate });
}

function noGpu(device: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-gpu-to-check',
    fact: `--check is for programs on a GPU, and this one would run on ${device}.`,
    next: 'Name a GPU with --device, or leave --check out.',
  });
}
