import type { Command } from 'commander';
import { Failure } from '../../failure.js';
import { badArgument } from '../options/arguments.js';

/** Where jobs run: a plimsoll server, or a cluster with a scheduler of its own. */
export const engineNames = ['local', 'slurm', 'ray'] as const;
export type EngineName = (typeof engineNames)[number];

export interface EngineArguments {
  readonly engine?: EngineName;
  /** Of Ray's dashboard. */
  readonly address?: string;
}

export function addEngineOption(command: Command): Command {
  return command
    .option(
      '--engine <name>',
      'local (default): a plimsoll server; slurm, ray: such a cluster, without a server of ours',
      engineArgument,
    )
    .option('--address <url>', 'with ray: its dashboard (RAY_ADDRESS, http://127.0.0.1:8265)');
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
  watch: 'Leave it out, or use the command "watch".',
  hub: 'Download the config first, and name its folder.',
  priority: 'Leave it out.',
  timeout: 'Leave it out.',
};
const inSlurm: Readonly<Record<string, string>> = {
  priority: 'Leave it out; sbatch has --nice and --qos.',
  timeout: 'Leave it out; sbatch has --deadline.',
};

/** The options, where none of them would be ignored. */
export function checkedForCluster<Given extends EngineArguments>(given: Given): Given {
  if (given.engine !== 'ray') checkAddress(given);
  const option = Object.keys(forServer).find((name) => Reflect.get(given, name) !== undefined);
  if (option === undefined) return given;
  const own = given.engine === 'slurm' ? inSlurm[option] : undefined;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `--${option} is for a plimsoll server, and --engine names ${given.engine}.`,
    next: own ?? forServer[option] ?? 'Leave it out.',
  });
}

function checkAddress({ address }: EngineArguments): void {
  if (address === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--address is the dashboard of Ray, and --engine does not name ray.',
    next: 'Add --engine ray, or leave it out; --server names a plimsoll server.',
  });
}

/** The cluster that was named; undefined for a server of ours. */
export function clusterOf(given: EngineArguments): Exclude<EngineName, 'local'> | undefined {
  const { engine } = given;
  if (engine !== undefined && engine !== 'local') return engine;
  checkAddress(given);
  return undefined;
}
