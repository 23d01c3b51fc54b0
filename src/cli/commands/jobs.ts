import { Failure } from '../../failure.js';
import { hasEnded, type JobState, jobStates } from '../../jobs/types.js';
import { countsWords, jobsTable, jobText } from '../../report/text/job-text.js';
import { systemClock } from '../../time/clock.js';
import { addServerOptions, type ServerArguments } from '../client/find-server.js';
import { sleepFor } from '../client/follow-log.js';
import {
  type JobPage,
  listJobs,
  readJob,
  type ServerClient,
  unreachableCode,
  withServer,
} from '../client/server-client.js';
import { listClusterJobs } from '../engines/cluster-engine.js';
import {
  addEngineOption,
  checkedForCluster,
  clusterOf,
  type EngineArguments,
} from '../engines/engine-option.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import { idArgument, statesArgument } from '../options/arguments.js';
import { openScreen, openTerminal } from '../screen/terminal.js';
import type { Stop } from '../stop.js';

interface JobsArguments extends ServerArguments, EngineArguments {
  readonly state?: readonly JobState[];
  readonly all?: boolean;
  readonly watch?: boolean;
}

/** On a terminal more is no help. */
const shownActive = 100;
const shownEnded = 10;
const lookMs = 1000;

export const jobsCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[id]', 'show this job in detail', idArgument)
      .option(
        '--state <states>',
        'only jobs in these states, such as waiting,running',
        statesArgument,
      )
      .option('--all', 'all jobs, however old')
      .option('--watch', 'refresh until q or Ctrl-C');
    addEngineOption(addServerOptions(command))
      .addHelpText(
        'after',
        `
Without options it shows the jobs that run and wait, and the last ${shownEnded} that ended.

Examples:
  plimsoll jobs
  plimsoll jobs --state failed,expired
  plimsoll jobs --watch
  plimsoll jobs --engine slurm
  plimsoll jobs 12`,
      )
      .action(
        context.action((id: string | undefined, given: JobsArguments) =>
          clusterOf(given) === undefined
            ? jobs(id, given, context)
            : listClusterJobs(id, checkedForCluster(given), context.io),
        ),
      );
  },
};

async function jobs(
  id: string | undefined,
  given: JobsArguments,
  { io }: CommandContext,
): Promise<number> {
  return withServer(given, io, async (client, stop) => {
    if (given.json) {
      printJson(io, id === undefined ? await chosenJobs(client, given) : await readJob(client, id));
      return 0;
    }
    const look = () => linesOf(client, id, given, io);
    if (!given.watch) {
      io.stdout.write(`${(await look()).join('\n')}\n`);
    } else if (io.stdout.isTerminal) {
      await jobsOnScreen({ io, stop, look, everyMs: lookMs });
    } else {
      await printChanges(look, io, stop.signal);
    }
    return stop.interruptedBy ?? 0;
  });
}

async function linesOf(
  client: ServerClient,
  id: string | undefined,
  given: JobsArguments,
  io: CliIo,
): Promise<readonly string[]> {
  const options = {
    columns: io.stdout.columns(),
    style: textStyle(io),
    nowMs: systemClock.epochMs(),
  };
  if (id !== undefined) return jobText(await readJob(client, id), options).split('\n');
  const page = await chosenJobs(client, given);
  const counts = countsWords(page.counts, page.jobs);
  return page.jobs.length === 0 ? [counts] : [...jobsTable(page.jobs, options), '', counts];
}

async function chosenJobs(client: ServerClient, { state, all }: JobsArguments): Promise<JobPage> {
  if (all || state !== undefined) {
    return listJobs(client, { states: state, order: 'newest', most: Number.POSITIVE_INFINITY });
  }
  const ended = jobStates.filter(hasEnded);
  const pages = [
    await listJobs(client, { states: ['running'], order: 'newest', most: shownActive }),
    // Of many that wait those whose turn comes soon.
    await listJobs(client, { states: ['waiting'], order: 'oldest', most: shownActive }),
    await listJobs(client, { states: ended, order: 'newest', most: shownEnded }),
  ];
  return { jobs: pages.flatMap((page) => page.jobs), counts: pages.at(-1)?.counts ?? {} };
}

/** For a file or a pipe: the table again each time that it says something else. */
async function printChanges(
  look: () => Promise<readonly string[]>,
  io: CliIo,
  signal: AbortSignal,
): Promise<void> {
  let before = '';
  while (!signal.aborted) {
    const text = (await look()).join('\n');
    if (text !== before) io.stdout.write(`${text}\n\n`);
    before = text;
    await sleepFor(lookMs, signal);
  }
}

interface JobsScreenOptions {
  readonly io: CliIo;
  readonly stop: Stop;
  readonly look: () => Promise<readonly string[]>;
  readonly everyMs: number;
}

/** Draws again and again until the person leaves; the terminal is given back in every case. */
async function jobsOnScreen({ io, stop, look, everyMs }: JobsScreenOptions): Promise<void> {
  // What cannot start should say so on the plain terminal.
  let lines = await look();
  const terminal = openTerminal(io);
  const screen = openScreen(terminal);
  const giveBack = () => screen.leave();
  const suspend = () => {
    screen.leave();
    terminal.suspend();
  };
  const unlisten = terminal.listen({
    input(text) {
      for (const key of text) {
        if (key === '\u0003') stop.stop('SIGINT');
        else if (key === '\u001A') suspend();
        else if (key === 'q' || key === 'Q') stop.stop();
      }
    },
    resize() {
      screen.forget();
      screen.draw(lines);
    },
    resume() {
      if (stop.signal.aborted) return;
      screen.enter();
      screen.draw(lines);
    },
    suspend,
    gone: () => stop.stop('SIGHUP'),
  });
  stop.signal.addEventListener('abort', giveBack, { once: true });
  process.once('exit', giveBack);
  try {
    if (!stop.signal.aborted) screen.enter();
    while (!stop.signal.aborted) {
      screen.draw(lines);
      await sleepFor(everyMs, stop.signal);
      if (!stop.signal.aborted) lines = await lookAgain(look, lines);
    }
  } finally {
    unlisten();
    giveBack();
    process.off('exit', giveBack);
  }
}

/** A server that is away for a while is back soon: what was seen last stays, and says so. */
async function lookAgain(
  look: () => Promise<readonly string[]>,
  before: readonly string[],
): Promise<readonly string[]> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== unreachableCode) throw error;
    const away = 'The server does not answer; this is its last answer.';
    return before[0] === away ? before : [away, ...before];
  }
}
