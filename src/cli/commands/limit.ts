import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/folders.js';
import type { JobView } from '../../jobs/daemon/types.js';
import { jobName } from '../../report/text/job-text.js';
import { orderLimit } from '../../run/limit/moving-limit.js';
import { readJournal, unknownRun } from '../../run/store/journal.js';
import type { LimitedEntry } from '../../run/store/journal-entry.js';
import { isRunId, listRuns, RunFolder } from '../../run/store/run-folder.js';
import { isFinished, unfinishedRuns } from '../../run/sweep.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { formatBytes } from '../../units/bytes.js';
import { addServerOptions, type ServerArguments } from '../client/find-server.js';
import { limitJob, readJob, withServer } from '../client/server-client.js';
import { type CliIo, type CommandContext, type CommandModule, printJson } from '../io.js';
import { idArgument, sizeArgument } from '../options/arguments.js';

/** A step may take seconds, and the program obeys between two of its operations. */
const waitSeconds = 10;
const lookSeconds = 0.2;

export const limitCommand: CommandModule = {
  define(command, context) {
    command
      .argument('<id>', 'a job of the server, or a run of "plimsoll run"', idArgument)
      .argument('<size>', 'what it may take of its device from now on', sizeArgument('The limit'));
    addServerOptions(command)
      .addHelpText(
        'after',
        `
A job that runs in PyTorch gives way within a step: what autograd keeps moves to the host, or is
computed again. Its reservation moves when that is true: up at once if there is room, down when the
program keeps to it. What cannot give way keeps what it has. The exit code is 0, and 1 where the
limit is not the one that was asked for, or the program has not answered within ${waitSeconds} s.

Examples:
  plimsoll limit 12 20GiB
  plimsoll limit 20261119-140203123-3f2a 8GiB`,
      )
      .action(
        context.action((id: string, bytes: number, given: ServerArguments) =>
          isRunId(id) ? limitRun(id, bytes, given, context.io) : limit(id, bytes, given, context),
        ),
      );
  },
};

async function limit(
  id: string,
  bytes: number,
  given: ServerArguments,
  { io }: CommandContext,
): Promise<number> {
  return withServer(given, io, async (client) => {
    const asked = await limitJob(client, id, bytes);
    const job = await answered(systemClock, asked, async (last) => {
      if (last.limit?.state !== 'asked' || last.state !== 'running') return last;
      const now = await readJob(client, id);
      return now.limit?.state === 'asked' ? undefined : now;
    });
    if (given.json === true) printJson(io, job);
    else io.stdout.write(`${jobLimitWords(job)}\n`);
    return job.limit?.state === 'set' ? 0 : 1;
  });
}

/** The last that was heard within the time; `look` answers undefined as long as there is no answer. */
async function answered<T>(
  clock: Clock,
  first: T,
  look: (last: T) => Promise<T | undefined>,
): Promise<T> {
  const until = clock.seconds() + waitSeconds;
  for (;;) {
    const found = await look(first);
    if (found !== undefined || clock.seconds() >= until) return found ?? first;
    await clock.waitUntil(clock.seconds() + lookSeconds);
  }
}

function jobLimitWords(job: JobView): string {
  const name = jobName(job).replace('job', 'Job');
  const reserved = formatBytes(job.reservation?.bytes ?? 'unknown');
  if (job.limit?.state === 'set') return `${name} keeps to ${reserved} from now on.`;
  if (job.limit?.state === 'kept') return `${name} keeps ${reserved}. ${job.limit.why}`;
  return `${name} was asked, and has not answered yet: it has ${reserved} reserved.`;
}

/** A run of this home: its supervisor finds the limit in the run's folder. */
async function limitRun(
  id: string,
  bytes: number,
  given: ServerArguments,
  io: CliIo,
): Promise<number> {
  const home = homeFolder(io.environment);
  const folder = new RunFolder(home, id);
  if (!listRuns(home).includes(id)) throw unknownRun(id, unfinishedRuns(home));
  if (isFinished(folder)) throw hasEnded(id);
  const { order } = orderLimit(folder.path, bytes);
  const none: LimitedEntry | null = null;
  const answer = await answered<LimitedEntry | null>(systemClock, none, async () => {
    const entries = readJournal(folder.journal);
    const found = entries.findLast((entry) => entry.type === 'limited' && entry.order === order);
    return await Promise.resolve(found?.type === 'limited' ? found : undefined);
  });
  const isSet = answer !== null && answer.bytes === bytes;
  const state = answer === null ? 'asked' : isSet ? 'set' : 'kept';
  const limitBytes = answer?.bytes ?? 'unknown';
  if (given.json === true) {
    printJson(io, { run: id, askedBytes: bytes, limitBytes, state, why: answer?.why ?? '' });
  } else io.stdout.write(`${runLimitWords(id, answer, isSet)}\n`);
  return isSet ? 0 : 1;
}

function runLimitWords(id: string, answer: LimitedEntry | null, isSet: boolean): string {
  if (answer === null) return `Run ${id} was asked, and has not answered yet.`;
  const { bytes, why } = answer;
  if (isSet)
    return `Run ${id} keeps to ${formatBytes(answer.bytes === 'none' ? 'unknown' : answer.bytes)} from now on.`;
  return `Run ${id} keeps ${bytes === 'none' ? 'no limit' : formatBytes(bytes)}. ${why}`;
}

function hasEnded(id: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'run-has-ended',
    fact: `The run ${id} has ended.`,
    next: 'There is nothing to limit.',
  });
}
