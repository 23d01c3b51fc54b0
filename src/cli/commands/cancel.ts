import { Failure } from '../../failure.js';
import type { JobView } from '../../jobs/daemon/types.js';
import { jobName } from '../../report/text/job-text.js';
import { addServerOptions, type ServerArguments } from '../client/find-server.js';
import { cancelJob, type ServerClient, withServer } from '../client/server-client.js';
import { cancelClusterJobs } from '../engines/cluster-engine.js';
import {
  addEngineOption,
  checkedForCluster,
  clusterOf,
  type EngineArguments,
} from '../engines/engine-option.js';
import { type CommandContext, type CommandModule, printJson } from '../io.js';
import { badArgument, idArgument } from '../options/arguments.js';
import { reportError } from '../report-error.js';

export const cancelCommand: CommandModule = {
  define(command, context) {
    command.argument('<id...>', 'ids of the jobs', idsArgument);
    addEngineOption(addServerOptions(command))
      .addHelpText(
        'after',
        `
A job that waits is taken out of the queue; one that runs is asked to end, and is killed when it does
not. The exit code is 0, 1 when one of them had ended already, and 2 when there is no such job.

Examples:
  plimsoll cancel 12
  plimsoll cancel 12 13 14`,
      )
      .action(
        context.action((ids: readonly string[], given: ServerArguments & EngineArguments) =>
          clusterOf(given) === undefined
            ? cancel(ids, given, context)
            : cancelClusterJobs(ids, checkedForCluster(given), context.io),
        ),
      );
  },
};

function idsArgument(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, idArgument(text)];
}

/** Each of them, whatever becomes of the others. */
async function cancel(
  ids: readonly string[],
  given: ServerArguments,
  { io }: CommandContext,
): Promise<number> {
  if (ids.length === 0) throw badArgument('The id of a job', '', '"plimsoll jobs" lists them.');
  return withServer(given, io, async (client) => {
    const jobs: JobView[] = [];
    const errors: { id: string; code: string; fact: string; next: string }[] = [];
    let exitCode = 0;
    for (const id of new Set(ids)) {
      const answer = await attempt(client, id);
      if (!(answer instanceof Failure)) {
        jobs.push(answer);
        if (!given.json) io.stdout.write(`${cancelledWords(answer)}\n`);
        continue;
      }
      const { code, fact, next } = answer;
      errors.push({ id, code, fact, next });
      exitCode = Math.max(exitCode, code === 'job-has-ended' ? 1 : answer.exitCode);
      if (!given.json) io.stderr.write(reportError(answer, false).text);
    }
    if (given.json) printJson(io, { jobs, errors });
    return exitCode;
  });
}

/** What is wrong with one job; what is wrong with the server is thrown. */
async function attempt(client: ServerClient, id: string): Promise<JobView | Failure> {
  try {
    return await cancelJob(client, id);
  } catch (error) {
    if (
      error instanceof Failure &&
      ['unknown-job', 'job-has-ended', 'not-your-job'].includes(error.code)
    )
      return error;
    throw error;
  }
}

function cancelledWords(job: JobView): string {
  const name = jobName(job).replace('job', 'Job');
  return job.state === 'running' ? `${name} was asked to end.` : `${name} is ${job.state}.`;
}
