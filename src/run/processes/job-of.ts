import type { Known } from '../../units/known.js';

/** The job that a process belongs to, whichever scheduler started it. */
export interface ProcessJob {
  /** `slurm`, `kubernetes`, `ray`; `torch` for a training, `run` for a run, that was started by hand. */
  readonly engine: string;
  readonly id: string;
  /** Empty where it has none. */
  readonly name: string;
  /** Of a distributed training; or `none`. */
  readonly rank: Known<string>;
  /** How many ranks it has; or `none`. */
  readonly worldSize: Known<string>;
  /** The limit that Plimsoll gave it on each device; or `unknown`. */
  readonly reservedBytes: Known<number>;
}

/** The variables of a scheduler for the processes of a job. */
interface Source {
  readonly engine: string;
  readonly id: string;
  readonly name?: string;
}

const sources: readonly Source[] = [
  { engine: 'slurm', id: 'SLURM_JOB_ID', name: 'SLURM_JOB_NAME' },
  { engine: 'ray', id: 'RAY_JOB_ID' },
  { engine: 'run', id: 'PLIMSOLL_RUN_ID' },
];
/** Of a job that Plimsoll submitted. */
const own = { engine: 'PLIMSOLL_JOB_ENGINE', id: 'PLIMSOLL_JOB_ID', name: 'PLIMSOLL_JOB_NAME' };
const limit = 'PLIMSOLL_MEMORY_BYTES';
/** torchrun, srun, Open MPI, MPICH. */
const ranks = [
  ['RANK', 'WORLD_SIZE'],
  ['SLURM_PROCID', 'SLURM_NTASKS'],
  ['OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'],
  ['PMI_RANK', 'PMI_SIZE'],
] as const;
/** Variables that torchrun, or a person, sets alike for all ranks of a training. */
const training = { run: 'TORCHELASTIC_RUN_ID', address: 'MASTER_ADDR', port: 'MASTER_PORT' };

const wanted: ReadonlySet<string> = new Set([
  ...sources.flatMap(({ id, name }) => [id, ...(name === undefined ? [] : [name])]),
  ...Object.values(own),
  ...Object.values(training),
  ...ranks.flat(),
  limit,
  'HOSTNAME',
]);

/** A person may put anything into a variable. */
const longestValue = 128;

/** The variables that are asked for here; `environment` is that of /proc. */
export function jobVariables(environment: Uint8Array): ReadonlyMap<string, string> {
  const bytes = Buffer.from(environment.buffer, environment.byteOffset, environment.byteLength);
  const found = new Map<string, string>();
  for (let from = 0; from < bytes.length; ) {
    const next = bytes.indexOf(0, from);
    const end = next === -1 ? bytes.length : next;
    const equals = bytes.indexOf('=', from);
    const name = equals > from && equals < end ? bytes.toString('latin1', from, equals) : '';
    if (wanted.has(name)) {
      found.set(name, bytes.toString('utf8', equals + 1, Math.min(end, equals + 1 + longestValue)));
    }
    from = end + 1;
  }
  return found;
}

/**
 * The job of a process, by its variables and cgroups; undefined where it belongs to none. What a
 * scheduler wrote into the cgroup counts more than a variable, which anyone can set. The ranks of a
 * training in several pods or runs are one job; `node` tells trainings apart that use their own machine.
 *
 * @example
 * jobOf(new Map([['SLURM_JOB_ID', '4711'], ['RANK', '3']]), undefined, 'n1');
 * // { engine: 'slurm', id: '4711', name: '', rank: '3', worldSize: 'none', reservedBytes: 'unknown' }
 */
export function jobOf(
  variables: ReadonlyMap<string, string>,
  cgroups: string | undefined,
  node: string,
): ProcessJob | undefined {
  const job =
    slurmGroup(variables, cgroups) ??
    named(variables) ??
    scheduled(variables) ??
    severalNodes(variables) ??
    pod(variables, cgroups) ??
    started(variables, 'run') ??
    oneNode(variables, node);
  if (job === undefined) return undefined;
  const reserved = variables.get(limit) ?? '';
  const [rank, size] = ranks.find(([name]) => isRank(variables.get(name))) ?? [];
  return {
    ...job,
    rank: countIn(variables, rank),
    worldSize: countIn(variables, size),
    reservedBytes: /^\d{1,15}$/.test(reserved) ? Number(reserved) : 'unknown',
  };
}

type Named = Pick<ProcessJob, 'engine' | 'id' | 'name'>;

function slurmGroup(variables: ReadonlyMap<string, string>, cgroups = ''): Named | undefined {
  const id = /\/slurm[^\n]*\/job_(\d{1,12})(?:\/|$)/m.exec(cgroups)?.[1];
  if (id === undefined) return undefined;
  return { engine: 'slurm', id, name: variables.get('SLURM_JOB_NAME') ?? '' };
}

function named(variables: ReadonlyMap<string, string>): Named | undefined {
  const id = variables.get(own.id);
  if (!id) return undefined;
  const engine = variables.get(own.engine) || 'plimsoll';
  return { engine, id, name: variables.get(own.name) ?? '' };
}

/** A pod's host name is the name of the pod. */
function pod(variables: ReadonlyMap<string, string>, cgroups = ''): Named | undefined {
  const uid = /\/kubepods[^\n]*pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})/.exec(
    cgroups,
  )?.[1];
  if (uid === undefined) return undefined;
  const name = variables.get('HOSTNAME') ?? '';
  return { engine: 'kubernetes', id: uid.replaceAll('_', '-'), name };
}

function scheduled(variables: ReadonlyMap<string, string>): Named | undefined {
  return started(variables, 'slurm') ?? started(variables, 'ray');
}

function started(variables: ReadonlyMap<string, string>, wantedEngine: string): Named | undefined {
  for (const { engine, id, name } of sources) {
    const value = variables.get(id);
    if (value && engine === wantedEngine) {
      return { engine, id: value, name: (name && variables.get(name)) ?? '' };
    }
  }
  return undefined;
}

/** A training that was started by hand: by the id that torchrun was given, else by where its ranks meet. */
function severalNodes(variables: ReadonlyMap<string, string>): Named | undefined {
  if (!isRank(variables.get('RANK'))) return undefined;
  const run = variables.get(training.run) ?? 'none';
  // What torchrun says where it was given no id.
  if (run !== 'none' && run !== '') return { engine: 'torch', id: run, name: '' };
  const address = variables.get(training.address) ?? '';
  if (address === '' || isOwnMachine(address)) return undefined;
  return { engine: 'torch', id: `${address}:${variables.get(training.port) ?? ''}`, name: '' };
}

function oneNode(variables: ReadonlyMap<string, string>, node: string): Named | undefined {
  const address = variables.get(training.address) ?? '';
  if (!isRank(variables.get('RANK')) || !isOwnMachine(address)) return undefined;
  return { engine: 'torch', id: `${node}:${variables.get(training.port) ?? ''}`, name: '' };
}

function isOwnMachine(address: string): boolean {
  return address === 'localhost' || address === '::1' || address.startsWith('127.');
}

function countIn(variables: ReadonlyMap<string, string>, name: string | undefined): string {
  const text = name === undefined ? undefined : variables.get(name);
  return isRank(text) ? text : 'none';
}

function isRank(text: string | undefined): text is string {
  return text !== undefined && /^\d{1,7}$/.test(text);
}
