import type { Command } from 'commander';
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

/** The cluster that was named; undefined for a server of ours. */
export function clusterOf({ engine }: EngineArguments): Exclude<EngineName, 'local'> | undefined {
  return engine === undefined || engine === 'local' ? undefined : engine;
}
