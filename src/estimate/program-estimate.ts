import { constants } from 'node:fs';
import { cp, lstat, opendir } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { Failure } from '../failure.js';
import { formatBytes, GiB } from '../units/bytes.js';
import type { Gpu } from './cards/gpu-table.js';
import type { EstimateMachine } from './estimate.js';
import { inThisThread } from './estimate-work.js';
import { crashOf } from './trace/crash-file.js';
import { programCommand } from './trace/program-command.js';
import { pythonFailure } from './trace/python-failure.js';
import { cardArguments } from './trace/python-trace.js';
import { type RunPythonOptions, runPython } from './trace/run-python.js';
import { type ProgramFiles, readTrace, type Trace } from './trace/trace-file.js';
import { ownPlace, type TracePlace } from './trace/trace-place.js';
import type { Estimate } from './types.js';
import type { Wording } from './wording.js';

export interface ProgramRequest {
  /** As a person types it: `['python', 'train.py', '--epochs', '3']`. */
  readonly command: readonly string[];
  readonly gpu: Gpu;
  /** Cards that it sees: what `torch.cuda.device_count()` tells it. One where it is left out. */
  readonly cards?: number | undefined;
  /** Whether it runs in a copy of its folder, so that what it writes there is not kept. */
  readonly inCopy?: boolean | undefined;
}

export interface ProgramMachine extends EstimateMachine {
  /** Gets what the program prints, as it comes. */
  readonly onOutput?: ((text: string) => void) | undefined;
  readonly timeoutSeconds?: number | undefined;
  /** Gets what the program asked for, before it is replayed. */
  readonly onTrace?: ((trace: Trace) => void) | undefined;
  /** Left out, the program runs as who we are. */
  readonly openPlace?: (() => Promise<TracePlace>) | undefined;
}

/**
 * What a program needs on one GPU, found by running it as it is without one.
 *
 * @example
 * const { phases } = await estimateProgram(
 *   { command: ['python', 'train.py'], gpu: findGpu('h100') },
 *   { environment: process.env, folder: process.cwd() },
 * );
 */
export async function estimateProgram(
  { command, gpu, cards, inCopy }: ProgramRequest,
  machine: ProgramMachine,
): Promise<Estimate> {
  const { work = inThisThread, signal } = machine;
  const trace = await programTrace(command, { ...machine, gpu, cards, inCopy });
  machine.onTrace?.(trace);
  return work({ kind: 'trace', trace, gpu }, signal);
}

export interface ProgramTraceOptions extends Omit<RunPythonOptions, 'startAs'> {
  /** Instead of the Python that the command names. */
  readonly python?: string | undefined;
  readonly gpu?: Gpu | undefined;
  /** Cards that the program sees; one where it is left out. */
  readonly cards?: number | undefined;
  /** Whether it runs in a copy of its folder. */
  readonly inCopy?: boolean | undefined;
  readonly wording?: Wording | undefined;
  /** Left out, it is traced as who we are. */
  readonly openPlace?: (() => Promise<TracePlace>) | undefined;
}

/**
 * Runs a program as it is on a pretended GPU, until its phases were seen, and reads what it would have
 * asked CUDA's allocator for. What it saves is not kept.
 *
 * @example
 * const trace = await programTrace(['python', 'train.py'], { environment: process.env, folder: '.' });
 */
export async function programTrace(
  words: readonly string[],
  options: ProgramTraceOptions,
): Promise<Trace> {
  const { python, flags, program } = programCommand(words);
  const place = await (options.openPlace ?? ownPlace)();
  const scratch = place.folder;
  try {
    const output = join(scratch, 'trace.jsonl');
    const interpreter = options.python ?? python;
    const folder = options.inCopy ? join(scratch, 'copy') : options.folder;
    if (options.inCopy) await copyFolder(options.folder, folder);
    const end = await runPython(
      interpreter,
      [
        ...flags,
        '-m',
        'plimsoll_trace',
        ...cardArguments(options.gpu),
        ...(options.cards === undefined ? [] : [`--cards=${options.cards}`]),
        '--output',
        output,
        '--scratch',
        scratch,
        '--program',
        ...program,
      ],
      {
        ...options,
        startAs: place.startAs,
        folder,
        // What torch and the program put aside goes with our own file.
        environment: { ...options.environment, TMPDIR: scratch, TEMP: scratch, TMP: scratch },
      },
    );
    const crash = await crashOf(place, output, end);
    const failure = pythonFailure(interpreter, crash, await place.has(output), options.wording);
    if (failure !== undefined) throw failure;
    const trace = await readTrace(place.read(output));
    return options.inCopy
      ? { ...trace, files: filesOutside(folder, options.folder, trace) }
      : trace;
  } finally {
    await place.close();
  }
}

/** The files of the folder that a copy was made of. */
function filesOutside(copy: string, folder: string, { files }: Trace): ProgramFiles | undefined {
  const outside = (path: string) =>
    path === copy || path.startsWith(join(copy, sep))
      ? join(folder, path.slice(copy.length))
      : path;
  return (
    files && {
      read: files.read.map(outside),
      looked: files.looked.map(outside),
      listed: files.listed.map(outside),
      modules: files.modules.map(outside),
    }
  );
}

/** A line of some hundred characters; Python starts in less than a second. */
const stateSeconds = 60;

/**
 * A text that is the same as long as the Python of a command, its packages and the files of its program are. Undefined
 * where that cannot be told, and where one of them may have changed since `before`.
 *
 * @example
 * const { files } = await programTrace(command, options);
 * const before = await programState(command, files, options);
 * (await programState(command, files, options)) === before; // true, until somebody edits the program
 */
export async function programState(
  words: readonly string[],
  files: ProgramFiles,
  options: Omit<ProgramTraceOptions, 'startAs' | 'input'>,
  before?: Date,
): Promise<string | undefined> {
  const { python, flags } = programCommand(words);
  const place = await (options.openPlace ?? ownPlace)();
  try {
    const end = await runPython(
      options.python ?? python,
      [...flags, '-m', 'plimsoll_trace', '--state'],
      {
        environment: options.environment,
        folder: options.folder,
        signal: options.signal,
        timeoutSeconds: stateSeconds,
        startAs: place.startAs,
        input: JSON.stringify({ files, before: before && before.getTime() / 1000 }),
      },
    );
    if (!('stdout' in end) || end.code !== 0) return undefined;
    const state: unknown = Reflect.get(
      Object(JSON.parse(end.stdout.trim().split('\n').at(-1) ?? '')),
      'state',
    );
    return typeof state === 'string' ? state : undefined;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    return undefined;
  } finally {
    await place.close();
  }
}

/** A folder of code is far smaller; one with data or checkpoints would fill the temporary folder. */
const maxBytes = 2 * GiB;
const maxFiles = 50_000;

/**
 * Copies a folder, sharing the blocks of its files where the file system can. Links stay links. A folder
 * that is too large is a `Failure`, before anything is copied.
 *
 * @example
 * await copyFolder('project', 'copy');
 */
export async function copyFolder(
  from: string,
  to: string,
  limits: { readonly bytes: number; readonly files: number } = {
    bytes: maxBytes,
    files: maxFiles,
  },
): Promise<void> {
  let files = 0;
  let bytes = 0;
  for await (const entry of await opendir(from, { recursive: true })) {
    files += 1;
    if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size;
    if (files > limits.files || bytes > limits.bytes) throw tooLarge(from, limits);
  }
  await cp(from, to, {
    recursive: true,
    verbatimSymlinks: true,
    mode: constants.COPYFILE_FICLONE,
  });
}

function tooLarge(
  from: string,
  limits: { readonly bytes: number; readonly files: number },
): Failure {
  return new Failure({
    kind: 'input',
    code: 'folder-too-large',
    fact: `The folder ${from} holds more than ${formatBytes(limits.bytes)} or ${limits.files} files, so it is not copied.`,
    next: "Leave --cwd-copy out, or start from a folder that holds the program's code alone.",
  });
}
