import { availableParallelism } from 'node:os';
import { undoLastChange } from '../../files/change-files.js';
import {
  changeWords,
  debugFindings,
  type EnvironmentChange,
  type JobEnvironmentMode,
  jobEnvironmentModes,
  productionEnvironment,
  readChanges,
} from '../../plan/environment/job-environment.js';
import { type CliIo, printJson } from '../io.js';
import { badArgument, oneOfArgument } from './arguments.js';

export const environmentModeArgument = oneOfArgument('--env-mode', jobEnvironmentModes);

/** What a command before this one changed; our own commands pass it on. */
export function changesArgument(text: string): readonly EnvironmentChange[] {
  const changes = readChanges(text);
  if (changes !== undefined) return changes;
  throw badArgument(
    '--env-changes',
    text.slice(0, 200),
    'It takes environmentChanges of a report.',
  );
}

/** AMD's variables mean nothing on NVIDIA's cards, and harm nothing there. */
const contextHere = () => ({ vendor: 'nvidia', cores: availableParallelism(), gpus: 1 }) as const;

interface CheckedEnvironment {
  readonly environment: Record<string, string>;
  /** For the person: what was changed, or what should be. */
  readonly lines: readonly string[];
  readonly changes: readonly EnvironmentChange[];
}

/**
 * The environment that a program gets, with a line for each change. Without a mode it stays as it is,
 * and the lines warn of what is for debugging.
 */
export function checkedEnvironment(
  environment: CliIo['environment'],
  mode: JobEnvironmentMode | undefined,
  { by, named = [] }: { readonly by: EnvironmentChange['by']; readonly named?: readonly string[] },
): CheckedEnvironment {
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined) variables[name] = value;
  }
  if (mode === 'keep') return { environment: variables, lines: [], changes: [] };
  if (mode === 'production') {
    const asked = new Set(named.map((text) => text.replace(/=.*$/s, '')));
    const done = productionEnvironment(variables, contextHere(), { by, named: asked });
    const { changes } = done;
    return { environment: done.variables, lines: changes.map(changeWords), changes };
  }
  const lines = debugFindings(variables, contextHere()).map(
    ({ name, value, reason }) =>
      `${name}=${value} is for debugging. ${reason} --env-mode production removes it, --env-mode keep ends this warning.`,
  );
  return { environment: variables, lines, changes: [] };
}

/** Puts back what the last --apply wrote, and tells it; exit code 1 where a file was left alone. */
export function undoChange(folder: string, json: boolean, io: CliIo): number {
  const { restored, changedSince } = undoLastChange(folder);
  if (json) printJson(io, { restored, changedSince });
  else {
    const words = [
      `Put back: ${restored.length} ${restored.length === 1 ? 'file' : 'files'}.`,
      ...changedSince.map((file) => `Left alone, as it changed since: ${file}`),
    ];
    io.stdout.write(`${words.join('\n')}\n`);
  }
  return changedSince.length > 0 ? 1 : 0;
}
