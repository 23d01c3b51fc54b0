import type { Command } from 'commander';
import type { GpuSharing, Supervision } from '../../engine/kubernetes/pod-request.js';
import { Failure } from '../../failure.js';
import { badArgument } from '../options/arguments.js';

/** Engines that run jobs: a plimsoll server, or a cluster with its own scheduler. */
export const engineNames = ['local', 'slurm', 'ray', 'kubernetes'] as const;
export type EngineName = (typeof engineNames)[number];

export interface EngineArguments {
  readonly engine?: EngineName;
  /** Of Ray's dashboard. */
  readonly address?: string;
  readonly containerImage?: string;
  readonly namespace?: string;
  readonly gpuSharing?: GpuSharing;
  readonly hostMemory?: number;
  readonly cpus?: number;
  readonly supervisor?: Supervision;
}

export function addEngineOption(command: Command): Command {
  return command
    .option(
      '--engine <name>',
      'local (default): a plimsoll server; slurm, ray, kubernetes: such a cluster, without a server of ours',
      engineArgument,
    )
    .option('--address <url>', 'with ray: its dashboard (RAY_ADDRESS, http://127.0.0.1:8265)')
    .option('--namespace <name>', "with kubernetes: where (kubectl's own)");
}

function engineArgument(text: string): EngineName {
  const engine = engineNames.find((name) => name === text);
  if (engine !== undefined) return engine;
  throw badArgument('--engine', text, `It takes ${engineNames.join(' or ')}.`);
}

/** Options that only our own server takes; a cluster has its own commands for some of them. */
const forServer: Readonly<Record<string, string>> = {
  server: 'Leave it out.',
  socket: 'Leave it out.',
  watch: 'Leave it out, or use the command "watch".',
  hub: 'Download the config first, and name its folder.',
  priority: 'Leave it out.',
  timeout: 'Leave it out.',
};
/** A job of Kubernetes is submitted once, and its image is another machine. */
const notInKubernetes: Readonly<Record<string, string>> = {
  attempts: 'Leave it out.',
  cwd: 'Leave it out; the image has a working directory.',
};
/** Options that only Kubernetes takes. */
const onlyKubernetes = {
  containerImage: '--container-image',
  namespace: '--namespace',
  gpuSharing: '--gpu-sharing',
  hostMemory: '--host-memory',
  cpus: '--cpus',
  supervisor: '--supervisor',
};
const inSlurm: Readonly<Record<string, string>> = {
  priority: 'Leave it out; sbatch has --nice and --qos.',
  timeout: 'Leave it out; sbatch has --deadline.',
};

/** The options, where none of them would be ignored. */
export function checkedForCluster<Given extends EngineArguments>(given: Given): Given {
  if (given.engine !== 'ray') checkAddress(given);
  if (given.engine === 'kubernetes') checkKubernetes(given);
  else checkNotKubernetes(given);
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

function checkKubernetes(given: EngineArguments): void {
  const names = Object.keys(notInKubernetes);
  const option = names.find((name) => Reflect.get(given, name) !== undefined);
  if (option === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `--${option} cannot be used with --engine kubernetes.`,
    next: notInKubernetes[option] ?? 'Leave it out.',
  });
}

/** Throws where an option of Kubernetes would be ignored. */
function checkNotKubernetes(given: EngineArguments): void {
  const found = Object.entries(onlyKubernetes).find(
    ([name]) => Reflect.get(given, name) !== undefined,
  );
  if (found === undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `${found[1]} is for Kubernetes, and --engine does not name it.`,
    next: 'Add --engine kubernetes, or leave it out.',
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
  checkNotKubernetes(given);
  return undefined;
}
