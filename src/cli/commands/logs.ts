import { StringDecoder } from 'node:string_decoder';
import { jobEndWords } from '../../report/text/job-text.js';
import { addServerOptions, type ServerArguments } from '../client/find-server.js';
import { readJob, readLog, type ServerClient, withServer } from '../client/server-client.js';
import { jobExitCode, watchJob, writing } from '../client/watch-job.js';
import { showClusterLog } from '../engines/cluster-engine.js';
import {
  addEngineOption,
  checkedForCluster,
  clusterOf,
  type EngineArguments,
} from '../engines/engine-option.js';
import { type CommandContext, type CommandModule, printJson } from '../io.js';
import { idArgument, tailArgument } from '../options/arguments.js';

interface LogsArguments extends ServerArguments, EngineArguments {
  readonly follow?: boolean;
  readonly tail?: number;
}

export const logsCommand: CommandModule = {
  define(command, context) {
    command
      .argument('<id>', 'id of the job', idArgument)
      .option('-f, --follow', 'follow the output until the job ends')
      .option('--tail <lines>', 'only the last lines (all)', tailArgument);
    addEngineOption(addServerOptions(command))
      .addHelpText(
        'after',
        `
The exit code is 0; with --follow it is 0 when the job succeeded, 1 when it was refused or waited too
long, and 4 when it failed or was cancelled. It waits for a server that restarts meanwhile.
Ctrl-C leaves the job running.

Examples:
  plimsoll logs 12
  plimsoll logs -f --tail 20 12`,
      )
      .action(
        context.action((id: string, given: LogsArguments) =>
          clusterOf(given) === undefined
            ? logs(id, given, context)
            : showClusterLog(id, checkedForCluster(given), context.io),
        ),
      );
  },
};

async function logs(id: string, given: LogsArguments, { io }: CommandContext): Promise<number> {
  return withServer(given, io, async (client, stop) => {
    const job = await readJob(client, id);
    const from = await startOf(client, id, job.log.bytes, given.tail);
    if (given.follow) {
      const json = given.json === true;
      const ended = await watchJob(job, { client, stop, io, follow: true, json, from });
      if (ended === undefined) return stop.interruptedBy ?? 0;
      if (json) printJson(io, ended);
      else io.stderr.write(`plimsoll: ${jobEndWords(ended)}\n`);
      return jobExitCode(ended.state);
    }
    if (given.json) {
      let log = '';
      await copyLog(client, id, from, (text) => {
        log += text;
      });
      printJson(io, { id: job.id, state: job.state, from, log });
    } else await copyLog(client, id, from, writing(io.stdout, stop.signal));
    return 0;
  });
}

function startOf(
  client: ServerClient,
  id: string,
  size: number,
  tail: number | undefined,
): Promise<number> | number {
  if (tail === undefined) return 0;
  if (tail === 0) return size;
  return tailStart((from) => readLog(client, id, from), size, tail);
}

/** To where it ends now: a job that prints faster than we read must not hold us. */
async function copyLog(
  client: ServerClient,
  id: string,
  from: number,
  write: (text: string) => void | Promise<void>,
): Promise<void> {
  const decoder = new StringDecoder('utf8');
  let end: number | undefined;
  for (let at = from; ; ) {
    const { bytes, size, next } = await readLog(client, id, at);
    end ??= size;
    await write(decoder.write(Buffer.from(bytes)));
    if (next === at || next >= end) break;
    at = next;
  }
  await write(decoder.end());
}

const newline = 0x0a;
/** A page of a terminal, many times over. More lines are fetched in larger pieces. */
const firstBlockBytes = 64 * 1024;
/** The server gives twice as much at once: a block comes whole, also with a line of the server's. */
const largestBlockBytes = 512 * 1024;

/** Reads a part of a log from an offset on; it may answer less than all that follows. */
type ReadPart = (from: number) => Promise<{ readonly bytes: Uint8Array; readonly next: number }>;

/**
 * Where the last lines of a log begin. Reads backwards, so that of a log of gigabytes only the end
 * is fetched; where a part of it is missing, the last lines begin behind that.
 */
export async function tailStart(read: ReadPart, size: number, lines: number): Promise<number> {
  let left = lines;
  let end = size;
  for (let block = firstBlockBytes; end > 0; block = Math.min(2 * block, largestBlockBytes)) {
    const from = Math.max(0, end - block);
    const { bytes, next } = await read(from);
    const first = next - bytes.length;
    for (let index = bytes.length - 1; index >= 0; index -= 1) {
      const at = first + index;
      // The end of the last line begins no other.
      if (bytes[index] !== newline || at >= end || at === size - 1) continue;
      left -= 1;
      if (left <= 0) return at + 1;
    }
    if (first !== from) return from;
    end = from;
  }
  return 0;
}
