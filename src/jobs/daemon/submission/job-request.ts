import { statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { Failure } from '../../../failure.js';
import { changesOf, type EnvironmentChange } from '../../../plan/environment/job-environment.js';
import { fillCommand } from '../../../run/placeholders.js';
import { checkProgram } from '../../../run/program.js';
import type { RunSettings } from '../../../run/types.js';
import type { JobRequest } from '../types.js';

/** A year: a longer wait is a mistake. */
const longestWaitSeconds = 366 * 86_400;
const largestBatch = 2 ** 31;
/** An hour: what takes longer is measured sooner. */
const longestTraceSeconds = 3600;
/** Names of files and of people fit into it. */
const submissionCharacters = 200;

/**
 * Refuses at once what could never run: so somebody hears of it who is there, and not an hour later.
 * What the store refuses (names, priorities, sizes) is not checked here a second time.
 */
export function checkRequest(
  request: JobRequest,
  own: {
    readonly folder: string;
    readonly environment: Readonly<Record<string, string | undefined>>;
  },
): void {
  const { command, memoryBytes, timeoutSeconds, batch, cwd, submission } = request;
  if (!isCount(memoryBytes, Number.MAX_SAFE_INTEGER)) {
    throw bad(
      'memoryBytes',
      `It asks for ${memoryBytes} bytes.`,
      'Give a whole number of bytes above 0.',
    );
  }
  if (!isCount(batch, largestBatch)) {
    throw bad('batch', `The batch is ${batch}.`, 'Give a whole number above 0.');
  }
  if (
    timeoutSeconds !== undefined &&
    !(timeoutSeconds > 0 && timeoutSeconds <= longestWaitSeconds)
  ) {
    throw bad(
      'timeoutSeconds',
      `It may wait ${timeoutSeconds} s.`,
      'Give seconds above 0, a year at most.',
    );
  }
  const { estimateTimeoutSeconds: trace = 0 } = request;
  if (!(trace >= 0 && trace <= longestTraceSeconds)) {
    throw bad(
      'estimateTimeoutSeconds',
      `Its trace may take ${trace} s.`,
      'Give seconds, an hour at most; 0 leaves the trace out.',
    );
  }
  if (submission !== undefined && (submission === '' || submission.length > submissionCharacters)) {
    throw bad(
      'submission',
      `The name of the submission has ${submission.length} characters.`,
      `Give 1 to ${submissionCharacters}.`,
    );
  }
  for (const [name, value] of Object.entries(request.env ?? {})) {
    if (name === '' || /[=\0]/.test(name) || value.includes('\0')) {
      throw bad(
        'env',
        `The variable "${name.slice(0, 100)}" cannot be set.`,
        'A name has no "=", and neither name nor value has a zero byte.',
      );
    }
  }
  if (cwd !== undefined && !isAbsolute(cwd)) {
    throw bad('cwd', `The folder "${cwd.slice(0, 200)}" is not absolute.`, 'Give it from / on.');
  }
  const folder = cwd ?? own.folder;
  if (!isFolder(folder)) {
    throw new Failure({
      kind: 'input',
      code: 'no-such-folder',
      fact: `There is no folder ${folder} on the machine that runs the jobs.`,
      next: 'Set "cwd" to an existing folder.',
      field: 'cwd',
    });
  }
  const [program] = command;
  if (program === undefined || program === '' || command.some((word) => word.includes('\0'))) {
    throw bad(
      'command',
      'The command is empty.',
      'Give the program and its arguments as a list of texts without zero bytes.',
    );
  }
  const [filled = ''] = fillCommand(command, settingsOf(request), 1);
  checkProgram(filled, folder, { ...own.environment, ...request.env });
}

/**
 * The request with what the server changed in its own environment, which the job inherits. A variable
 * that the job brings itself is not inherited.
 */
export function withServerChanges(
  request: JobRequest,
  changes: readonly EnvironmentChange[] = [],
): JobRequest {
  const { env = {}, environmentChanges = [] } = request;
  const inherited = changes.filter(({ name }) => env[name] === undefined);
  return {
    ...request,
    ...changesOf({ environmentChanges: [...environmentChanges, ...inherited] }),
  };
}

/**
 * The request with one batch for the program and for its estimate: what is reserved must be for what
 * is run. A script makes its own batch, so it is told none.
 */
export function withOneBatch(request: JobRequest): JobRequest {
  const { workload } = request;
  const estimated = workload?.batch;
  if (request.batch !== undefined && estimated !== undefined && request.batch !== estimated) {
    throw bad(
      'batch',
      `The program gets a batch of ${request.batch}, and its workload has one of ${estimated}.`,
      'Give the same for both, or leave one of them out.',
    );
  }
  const batch = request.batch ?? estimated;
  if (batch === undefined && workload?.model !== undefined) {
    throw bad(
      'batch',
      'The batch of the workload is not known.',
      'Give the one that the program has.',
    );
  }
  if (batch === undefined) return request;
  return {
    ...request,
    batch,
    ...(workload?.model !== undefined && { workload: { ...workload, batch } }),
  };
}

function isCount(value: number | undefined, most: number): boolean {
  return value === undefined || (Number.isSafeInteger(value) && value >= 1 && value <= most);
}

/** As its first attempt has them, but for the device. */
export function settingsOf({ batch }: JobRequest): RunSettings {
  return {
    batch_size: batch ?? 'unknown',
    accumulation: 1,
    checkpointing: false,
    precision: 'fp32',
    offload: false,
    device: 'host',
  };
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function bad(field: keyof JobRequest, fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-job', fact, next, field });
}
