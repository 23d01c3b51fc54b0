import type { Known } from '../../units/known.js';

/** The job that a process belongs to, whichever scheduler started it. */
export interface ProcessJob {
  /** `slurm`, `kubernetes`, `ray`, or `run` for one that was started by hand. */
  readonly engine: string;
  readonly id: string;
  /** Empty where it has none. */
  readonly name: string;
  /** Of a distributed training; or `none`. */
  readonly rank: Known<string>;
  /** The limit that Plimsoll gave it on each device; or `unknown`. */
  readonly reservedBytes: Known<number>;
}

/** What a scheduler tells the processes of a job. */
interface Source {
  readonly engine: string;
  readonly id: string;
  readonly name?: string;
}

/** The first that is set counts. */
const sources: readonly Source[] = [
  { engine: 'slurm', id: 'SLURM_JOB_ID', name: 'SLURM_JOB_NAME' },
  { engine: 'ray', id: 'RAY_JOB_ID' },
  { engine: 'run', id: 'PLIMSOLL_RUN_ID' },
];
/** Of a job that Plimsoll submitted. */
const own = { engine: 'PLIMSOLL_JOB_ENGINE', id: 'PLIMSOLL_JOB_ID', name: 'PLIMSOLL_JOB_NAME' };
const limit = 'PLIMSOLL_MEMORY_BYTES';
/** torchrun, srun, Open MPI, MPICH. */
const ranks = ['RANK', 'SLURM_PROCID', 'OMPI_COMM_WORLD_RANK', 'PMI_RANK'] as const;

const wanted: ReadonlySet<string> = new Set([
  ...sources.flatMap(({ id, name }) => [id, ...(name === undefined ? [] : [name])]),
  ...Object.values(own),
  ...ranks,
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
 * scheduler wrote into the cgroup counts more than a variable, which anyone can set.
 *
 * @example
 * jobOf(new Map([['SLURM_JOB_ID', '4711'], ['RANK', '3']]), undefined);
 * // { engine: 'slurm', id: '4711', name: '', rank: '3', reservedBytes: 'unknown' }
 */
export function jobOf(
  variables: ReadonlyMap<string, string>,
  cgroups: string | undefined,
): ProcessJob | undefined {
  const found = slurmGroup(variables, cgroups) ?? named(variables) ?? pod(variables, cgroups);
  const job = found ?? started(variables);
  if (job === undefined) return undefined;
  const reserved = variables.get(limit) ?? '';
  return {
    ...job,
    rank: ranks.map((name) => variables.get(name)).find(isRank) ?? 'none',
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

function started(variables: ReadonlyMap<string, string>): Named | undefined {
  for (const { engine, id, name } of sources) {
    const value = variables.get(id);
    if (value) return { engine, id: value, name: (name && variables.get(name)) ?? '' };
  }
  return undefined;
}

function isRank(text: string | undefined): text is string {
  return text !== undefined && /^\d{1,7}$/.test(text);
}
