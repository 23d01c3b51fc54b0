import { execFile } from 'node:child_process';
import { basename, join } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { readKernelFile } from '../../device/kernel-files.js';
import type { ProcessReading } from '../../device/types.js';
import { formatBytes, GiB, MiB } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import { type Advice, unknownSaving } from './advice.js';

/** A program that runs on Node, or is to. */
export interface NodeProgram {
  /** As people know it: its name and pid, or the command. */
  readonly who: string;
  /** What it holds now; 0 before it was started. */
  readonly residentBytes: number;
  /** Where its heap ends: what its options state, or the default of its Node. */
  readonly heapLimitBytes: number;
  /** Where the end of its heap is stated: in its command, in NODE_OPTIONS, or nowhere. */
  readonly heapStated: 'command' | 'variable' | 'no';
  /** Whether its options state how much memory new objects get. */
  readonly isYoungStated: boolean;
}

/** A heap this full is collected over and over, and then ends. */
const nearlyFull = 0.8;
/** Of the host: the rest is for buffers outside of the heap, and for others. */
const hostShare = 0.75;
/** In MiB; the default is 16. 128 gained more in some runs of `npm run bench node-gc`, for twice the memory. */
const semiSpace = 64;
/** Of `npm run bench node-gc`, as in docs/optimize.md. */
const youngSaving = '27 %';
/** New objects take up to three semi-spaces: of a smaller host that would be too much. */
const leastHostBytes = 4 * GiB;

/**
 * Where the heap of a Node program should end, above what it needs and below what the host has; and
 * how much of it new objects should get.
 *
 * @example
 * const program = { residentBytes: 0, heapLimitBytes: 2 ** 32, heapStated: 'no', isYoungStated: true };
 * nodeAdvice([{ who: 'node (7)', ...program }], 2 ** 31)[0]?.code; // 'node-heap'
 */
export function nodeAdvice(programs: readonly NodeProgram[], hostBytes: number): readonly Advice[] {
  return [...heapAdvice(programs, hostBytes), ...youngAdvice(programs, hostBytes)];
}

function youngAdvice(programs: readonly NodeProgram[], hostBytes: number): readonly Advice[] {
  const without = programs.filter(({ isYoungStated }) => !isYoungStated);
  if (without.length === 0 || hostBytes < leastHostBytes) return [];
  const whose = without.map(({ who }) => who).join(', ');
  const few = `new objects get Node's default of memory (16 MiB at a time)`;
  const measured = `A program that makes many objects needed ${youngSaving} less processor time with ${semiSpace} MiB`;
  return [
    {
      code: 'node-young-heap',
      fact: `${whose}: ${few}. ${measured} (measured); others gain nothing. It takes up to ${3 * semiSpace} MiB more.`,
      steps: [nodeOption(`--max-semi-space-size=${semiSpace}`)],
      saves: unknownSaving,
    },
  ];
}

function heapAdvice(programs: readonly NodeProgram[], hostBytes: number): readonly Advice[] {
  const most = Math.floor((hostShare * hostBytes) / MiB) * MiB;
  return programs.flatMap((program): Advice[] => {
    const { who, residentBytes, heapLimitBytes, heapStated } = program;
    const ends = `its heap ends at ${formatBytes(heapLimitBytes)}`;
    if (heapLimitBytes > hostBytes) {
      const fact = `${who}: ${ends}, and the host has ${formatBytes(hostBytes)}: it would be killed before it collects.`;
      return [advised(fact, most, heapStated)];
    }
    if (residentBytes >= nearlyFull * heapLimitBytes && most > heapLimitBytes) {
      const fact = `${who} holds ${formatBytes(residentBytes)}, and ${ends}.`;
      return [advised(fact, Math.min(most, 2 * heapLimitBytes), heapStated)];
    }
    if (residentBytes === 0 && heapStated === 'no' && most > 2 * heapLimitBytes) {
      const fact = `${who}: ${ends}, and the host has ${formatBytes(hostBytes)}.`;
      return [advised(fact, most, heapStated)];
    }
    return [];
  });
}

function advised(fact: string, bytes: number, heapStated: NodeProgram['heapStated']): Advice {
  const option = `--max-old-space-size=${Math.floor(bytes / MiB)}`;
  return {
    code: 'node-heap',
    fact,
    // What the command states overrides the variable.
    steps: [heapStated === 'command' ? `node ${option} ... (in its command)` : nodeOption(option)],
    saves: unknownSaving,
  };
}

/** Adds to what is set; of the same option twice, the last one counts. */
function nodeOption(option: string): string {
  return `export NODE_OPTIONS="$NODE_OPTIONS ${option}"`;
}

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
