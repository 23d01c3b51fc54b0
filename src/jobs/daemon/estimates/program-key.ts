import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Gpu } from '../../../estimate/cards/gpu-table.js';
import { programCommand } from '../../../estimate/trace/program-command.js';
import { fileStates } from './file-states.js';
import { pythonPackages } from './python-packages.js';
import { scriptFiles } from './script-files.js';

/** A program as it would be started. */
export interface ProgramAsked {
  readonly command: readonly string[];
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/**
 * A name of a program's estimate that changes with its arguments, its variables, the sources and
 * settings beside it, the packages of its Python, and the card. Undefined where there are too many
 * files to look at.
 *
 * @example
 * await programKey({ command: ['python', 'train.py'], folder: '/srv/job', environment }, gpu);
 */
export async function programKey(asked: ProgramAsked, gpu: Gpu): Promise<string | undefined> {
  const { command, folder, environment } = asked;
  const { python, program } = programCommand(command);
  const [start = ''] = program;
  // A module is looked for where the program starts.
  const file = start === '-m' ? join(folder, '__main__.py') : resolve(folder, start);
  const files = await scriptFiles(file);
  if (files === undefined) return undefined;
  const packages = await pythonPackages({ python, environment, folder });
  const states = await fileStates([...files, ...packages]);
  const variables = Object.entries(environment).toSorted(([one], [other]) =>
    one < other ? -1 : 1,
  );
  return createHash('sha256')
    .update(JSON.stringify([command, folder, variables, gpu, states]))
    .digest('hex');
}
