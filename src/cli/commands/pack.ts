import { readdirSync, rmSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { loadSettings } from '../../config/load.js';
import { machineRoots } from '../../device/kernel-files.js';
import { readAllocation, secondsLeftOf } from '../../engine/slurm/allocation.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { Failure } from '../../failure.js';
import { homeFolder, packageFolder } from '../../files/folders.js';
import { openOutputFile } from '../../files/output-file.js';
import { readOwnFile } from '../../files/own-file.js';
import { readPackList } from '../../jobs/pack/pack-list.js';
import { cleanText } from '../../report/text/text-width.js';
import { checkPlatform } from '../../run/program.js';
import { isSupervised, takeRun } from '../../run/store/supervisor-lock.js';
import { makeHome } from '../../server/service/open-service.js';
import { type PackedResult, runPack } from '../../server/service/run-pack.js';
import { systemClock } from '../../time/clock.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { durationArgument } from '../options/arguments.js';
import { openLiveProgress } from '../screen/progress.js';
import { stopOnSignals } from '../stop.js';

interface PackArguments {
  readonly timeLimit?: number;
  readonly left?: string;
  readonly config?: string;
  readonly json?: boolean;
}

const maxListBytes = 64 * MiB;
/** A controller of a cluster serves many: it is not asked more often. */
const askSeconds = 30;

export const packCommand: CommandModule = {
  define(command, context) {
    command
      .argument('<file>', 'one command in each line, with options of submit before --')
      .option(
        '--time-limit <duration>',
        'when to end, such as 2h (the end of the Slurm job, if inside one)',
        durationArgument('--time-limit'),
      )
      .option('--left <file>', 'where to write the jobs that were not started (FILE.left)')
      .option('--config <file>', 'this configuration file instead of plimsoll.config.json')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText('after', help)
      .action(
        context.action((file: string, given: PackArguments) => pack(file, given, context.io)),
      );
  },
};

const help = `
Runs the commands of a list side by side on the GPUs of this machine, as many at a time as their
memory allows, without a server. Inside a Slurm job only the GPUs and the memory of that job are used.
A line may state what its job takes: --memory 6GiB -- python train.py. Without it the peak of earlier
runs of the same command counts; a command that never ran gets a whole GPU.

A job that would not end before the time limit is not started; it is written to FILE.left, for the
next time. The exit code is 0 when all jobs succeeded, 1 when some were not started, 4 when one failed.

Examples:
  plimsoll pack jobs.txt
  srun --gres=gpu:1 --time=2:00:00 plimsoll pack jobs.txt
  plimsoll pack jobs.txt --time-limit 30m --left tomorrow.txt`;

async function pack(file: string, given: PackArguments, io: CliIo): Promise<number> {
  checkPlatform('plimsoll pack');
  const { environment, folder } = io;
  const text = readOwnFile(resolve(folder, file), maxListBytes);
  if (text === undefined) throw cannotRead(file);
  const jobs = readPackList(text, file);
  const leftPath = given.left ?? `${file}.left`;
  const leftFile = openOutputFile(leftPath, folder);
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const home = homeFolder(environment);
  const { proc } = machineRoots;
  clearPackFolders(home, hostname(), proc);
  const ownHome = packFolder(home, hostname(), environment['SLURM_JOB_ID'] ?? String(process.pid));
  makeHome(ownHome);
  // While this process lives, its list is not cleared.
  takeRun(ownHome, proc);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const begun = systemClock.seconds();
  const results = await runPack({
    jobs,
    home,
    ownHome,
    settings,
    environment,
    folder,
    plimsoll: [process.execPath, join(packageFolder, 'bin/plimsoll.js')],
    secondsLeft: timeLeft(given.timeLimit, environment),
    signal: stop.signal,
    onChange: (line) => progress.show(line),
  }).finally(() => progress.end());
  const logs = join(ownHome, 'jobs');
  const summary = summaryOf(results, systemClock.seconds() - begun);
  if (summary.left.length > 0)
    leftFile.write(`${summary.left.map((job) => job.text).join('\n')}\n`);
  if (given.json)
    printJson(io, {
      ...summary,
      logs,
      leftFile: summary.left.length > 0 ? leftPath : null,
    });
  else io.stdout.write(`${packText(summary, { leftFile: leftPath, logs })}\n`);
  if (stop.interruptedBy !== undefined) return stop.interruptedBy;
  return summary.failed.length > 0 ? 4 : summary.left.length > 0 ? 1 : 0;
}

/** By the option, else by the allocation, which is asked now and then: its limit may be changed. */
function timeLeft(
  limitSeconds: number | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): () => Promise<Known<number>> {
  const begun = systemClock.seconds();
  if (limitSeconds !== undefined && limitSeconds > 0) {
    return async () => Math.max(0, limitSeconds - (systemClock.seconds() - begun));
  }
  const allocation = readAllocation(environment);
  if (allocation === undefined) return async () => 'unknown';
  const run = slurmCommands(environment);
  let known: { readonly at: number; readonly left: Known<number> } | undefined;
  return async () => {
    const now = systemClock.seconds();
    if (known === undefined || now - known.at > askSeconds) {
      known = { at: now, left: await secondsLeftOf(allocation.jobId, run, systemClock.epochMs()) };
    }
    return isKnown(known.left) ? Math.max(0, known.left - (now - known.at)) : 'unknown';
  };
}

function summaryOf(results: readonly PackedResult[], seconds: number): PackSummary {
  const of = (outcome: PackedResult['outcome']) => results.filter((one) => one.outcome === outcome);
  const peaks = results
    .flatMap(({ view }) => view.attempts.map(({ peakBytes }) => peakBytes))
    .filter(isKnown);
  return {
    succeeded: of('succeeded').length,
    failed: of('failed').map(({ job, view }) => ({
      line: job.line,
      text: job.text,
      reason: view.reason || view.state,
    })),
    left: of('left').map(({ job }) => ({ line: job.line, text: job.text })),
    seconds,
    peakBytes: peaks.length === 0 ? 'unknown' : Math.max(...peaks),
  };
}

function cannotRead(file: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'cannot-read',
    fact: `${file} is not a file that can be read.`,
    next: 'Name a file with one command in each line.',
  });
}

/** Logs of so many lists are kept on each host. */
export const keptLists = 20;

/** Where the lists of `plimsoll pack` lie; each host has its own, the home may be shared. */
export function packFolder(home: string, host: string, list: string): string {
  return join(home, 'pack', `${host}-${list}`);
}

/**
 * Removes the oldest lists of this host. What belongs to a process that lives stays: the list itself
 * (`takeRun` names its process), or a job that outlived it.
 */
export function clearPackFolders(home: string, host: string, procRoot: string): void {
  const lists = namesIn(join(home, 'pack'))
    .filter((name) => name.startsWith(`${host}-`) && /^\d+$/.test(name.slice(host.length + 1)))
    .map((name) => join(home, 'pack', name))
    .flatMap((path) => {
      const found = statSync(path, { throwIfNoEntry: false });
      return found?.isDirectory() ? [{ path, changedMs: found.mtimeMs }] : [];
    })
    .toSorted((a, b) => b.changedMs - a.changedMs);
  for (const { path } of lists.slice(keptLists)) {
    const runs = namesIn(join(path, 'runs')).map((name) => join(path, 'runs', name));
    if ([path, ...runs].some((one) => isSupervised(one, procRoot))) continue;
    rmSync(path, { recursive: true, force: true });
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** What became of a list of jobs. */
interface PackSummary {
  readonly succeeded: number;
  readonly failed: readonly {
    readonly line: number;
    readonly text: string;
    readonly reason: string;
  }[];
  readonly left: readonly { readonly line: number; readonly text: string }[];
  readonly seconds: number;
  readonly peakBytes: Known<number>;
}

/** At most so many lines of each kind are listed. */
const shownLines = 20;

function packText(
  summary: PackSummary,
  { leftFile, logs }: { readonly leftFile: string; readonly logs: string },
): string {
  const { succeeded, failed, left, seconds, peakBytes } = summary;
  const total = succeeded + failed.length + left.length;
  const peak = isKnown(peakBytes) ? ` Largest peak: ${formatBytes(peakBytes)} (measured).` : '';
  return [
    `${succeeded} of ${total} jobs succeeded in ${Math.round(seconds)} s.${peak}`,
    ...(failed.length === 0 ? [] : [`Failed: ${failed.length}. What they printed is in ${logs}.`]),
    ...listed(failed.map(({ line, text, reason }) => `  line ${line}: ${text} (${reason})`)),
    ...(left.length === 0
      ? []
      : [`Not started for lack of time, or stopped: ${left.length}. They are in ${leftFile}.`]),
  ]
    .map(cleanText)
    .join('\n');
}

function listed(lines: readonly string[]): readonly string[] {
  if (lines.length <= shownLines) return lines;
  return [...lines.slice(0, shownLines), `  and ${lines.length - shownLines} more`];
}
