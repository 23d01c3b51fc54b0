import { execFile } from 'node:child_process';
import { basename, join } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { readKernelFile } from '../device/kernel-files.js';
import type { ProcessReading } from '../device/types.js';
import { MiB } from '../units/bytes.js';
import { isKnown } from '../units/known.js';
import type { NodeProgram } from './node-advice.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Command lines and environments beyond this are cut; options of Node stand at the beginning. */
const limitBytes = 128 * 1024;
/** Smaller programs are far from any limit. */
const leastBytes = 256 * MiB;
const askSeconds = 5;

/** Programs on this host that run on Node, with where their heap ends. */
export function runningNodePrograms(
  processes: readonly ProcessReading[],
  procRoot: string,
): readonly NodeProgram[] {
  return processes.flatMap(({ pid, name, usedBytes }): NodeProgram[] => {
    if (!isKnown(name) || !isNode(name) || pid === process.pid) return [];
    if (!isKnown(usedBytes) || usedBytes < leastBytes) return [];
    const said = stated(wordsOf(procRoot, pid, 'cmdline'), wordsOf(procRoot, pid, 'environ'));
    return [
      {
        who: `${name} (${pid})`,
        residentBytes: usedBytes,
        heapLimitBytes: said.limit ?? getHeapStatistics().heap_size_limit,
        heapStated: said.heapStated,
        isYoungStated: said.isYoungStated,
      },
    ];
  });
}

/** A command that is about to be started, asked of its own Node; undefined where it is none. */
export async function nodeCommand(
  command: readonly string[],
  environment: Environment,
): Promise<NodeProgram | undefined> {
  const [program = '', ...rest] = command;
  if (!isNode(basename(program))) return undefined;
  const { limit, heapStated, isYoungStated } = stated(
    rest.join(' '),
    environment['NODE_OPTIONS'] ?? '',
  );
  const heapLimitBytes = limit ?? (await defaultLimit(program, environment));
  if (heapLimitBytes === undefined) return undefined;
  return {
    who: command.join(' '),
    residentBytes: 0,
    heapLimitBytes,
    heapStated,
    isYoungStated,
  };
}

interface Stated extends Pick<NodeProgram, 'heapStated' | 'isYoungStated'> {
  readonly limit: number | undefined;
}

/** What the command says overrides the variable. */
function stated(command: string, variable: string): Stated {
  const [inCommand, inVariable] = [statedLimit(command), statedLimit(variable)];
  const outside = inVariable === undefined ? 'no' : 'variable';
  return {
    limit: inCommand ?? inVariable,
    heapStated: inCommand === undefined ? outside : 'command',
    isYoungStated: /--(max|min)[-_]semi[-_]space[-_]size/.test(`${command} ${variable}`),
  };
}

function isNode(name: string): boolean {
  return /^(node|nodejs)(\.exe)?$/.test(name);
}

/** `--max-old-space-size=4096`, in MiB, the last one counts. */
function statedLimit(words: string): number | undefined {
  const found = [...words.matchAll(/--max[-_]old[-_]space[-_]size[= ](\d{1,9})\b/g)].at(-1)?.[1];
  return found === undefined ? undefined : Number(found) * MiB;
}

function wordsOf(procRoot: string, pid: number, file: string): string {
  const text = readKernelFile(join(procRoot, String(pid), file), limitBytes) ?? '';
  return text.replaceAll('\0', ' ');
}

function defaultLimit(program: string, environment: Environment): Promise<number | undefined> {
  const ask = "process.stdout.write(String(require('v8').getHeapStatistics().heap_size_limit))";
  const options = { timeout: askSeconds * 1000, env: { ...environment } };
  return new Promise((resolve) => {
    execFile(program, ['-e', ask], options, (error, stdout) => {
      const bytes = Number(stdout);
      resolve(error === null && Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined);
    });
  });
}
