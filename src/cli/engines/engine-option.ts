import type { Command } from 'commander';
import { Failure } from '../../failure.js';
import { badArgument } from '../options/arguments.js';

/** Where jobs run: a plimsoll server, or a cluster with a scheduler of its own. */
export const engineNames = ['local', 'slurm'] as const;
export type EngineName = (typeof engineNames)[number];

export interface EngineArguments {
  readonly engine?: EngineName;
}

export function addEngineOption(command: Command): Command {
  return command.option(
    '--engine <name>',
    'local (default): a plimsoll server; slurm: a Slurm cluster, without a server of ours',
    engineArgument,
  );
}

function engineArgument(text: string): EngineName {
  const engine = engineNames.find((name) => name === text);
  if (engine !== undefined) return engine;
  throw badArgument('--engine', text, `It takes ${engineNames.join(' or ')}.`);
}

/** What only a server of ours can do; a cluster has ways of its own for some of it. */
const forServer: Readonly<Record<string, string>> = {
  server: 'Leave it out.',
  socket: 'Leave it out.',
  watch: 'Leave it out, or use: watch plimsoll jobs --engine slurm',
  hub: 'Download the config first, and name its folder.',
  priority: 'Leave it out; sbatch has --nice and --qos.',
  timeout: 'Leave it out; sbatch has --deadline.',
};

/** The options, where none of them would be ignored. */
export function checkedForCluster<Given extends EngineArguments>(given: Given): Given {
  const option = Object.keys(forServer).find((name) => Reflect.get(given, name) !== undefined);
  if (option === undefined) return given;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `--${option} is for a plimsoll server, and --engine names ${given.engine}.`,
    next: forServer[option] ?? 'Leave it out.',
  });
}

/** The cluster that was named; undefined for a server of ours. */
export function clusterOf({ engine }: EngineArguments): Exclude<EngineName, 'local'> | undefined {
  return engine === undefined || engine === 'local' ? undefined : engine;
}
