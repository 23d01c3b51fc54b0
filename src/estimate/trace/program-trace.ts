import { join } from 'node:path';
import type { Gpu } from '../cards/gpu-table.js';
import type { Wording } from '../wording.js';
import { crashOf } from './crash-file.js';
import { copyFolder } from './folder-copy.js';
import { programCommand } from './program-command.js';
import { pythonFailure } from './python-failure.js';
import { cardArguments } from './python-trace.js';
import { type RunPythonOptions, runPython } from './run-python.js';
import { readTrace, type Trace } from './trace-file.js';
import { ownPlace, type TracePlace } from './trace-place.js';

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
        'plimsoll.trace',
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
    return await readTrace(place.read(output));
  } finally {
    await place.close();
  }
}
