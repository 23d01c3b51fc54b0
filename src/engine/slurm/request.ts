import { Failure } from '../../failure.js';
import { formatBytes, GiB, MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { noSuchGpus, type Place, tooLarge, wholeCluster } from '../job-failures.js';
import { hostNeedBytes } from '../measured-peaks.js';
import type { GpuOffer, SlurmNodes } from './nodes.js';

/** Slurm counts our own process on the node to the job's memory, too. */
const supervisorBytes = 256 * MiB;

/** A job's need of a cluster. */
export interface ClusterNeed {
  /** On each of its GPUs; of the host's memory where `gpus` is 0. */
  readonly bytes: Known<number>;
  readonly gpus: number;
}

/** The request to Slurm. */
export interface SlurmRequest {
  /** Such as `shard:30` or `gpu:a100:2`; `none` for a job of the host. */
  readonly gres: string;
  /** A feature of nodes, where the type of a GPU does not tell its memory. */
  readonly constraint?: string;
  /** `default` where nothing needs to be said. */
  readonly partition: string;
  /** Of the host, in MiB, as Slurm counts it; `default` where the site decides. */
  readonly memoryMebibytes: number | 'default';
  /** `default` where the site decides; jobs of earlier versions have none. */
  readonly cpus?: number | 'default';
  /** Limit of the job on each GPU, or on the host; `none` if it has whole GPUs. */
  readonly limitBytes: number | 'none';
  /** The part of the CUDA context. */
  readonly contextBytes: number;
  /** In words, for the person who submits. */
  readonly why: string;
  readonly notes: readonly string[];
}

/**
 * The cheapest request that is enough: shards of a GPU where the site has them, else the type of GPU
 * with the least memory that suffices.
 *
 * @example
 * slurmRequest({ bytes: 30 * GiB, gpus: 1 }, offers, ['gpu']).gres; // 'shard:30'
 */
export function slurmRequest(
  need: ClusterNeed,
  offers: readonly GpuOffer[],
  defaultPartitions: readonly string[],
  place: Place = wholeCluster,
): SlurmRequest {
  const { bytes, gpus } = need;
  if (gpus === 0) return hostRequest(bytes);
  const counted = offers.filter(({ count }) => count >= gpus);
  if (counted.length === 0) throw noSuchGpus(gpus, offers, place);
  if (!isKnown(bytes)) return wholeRequest(need, counted[0], counted, defaultPartitions);
  const shared =
    gpus === 1 ? cheapest(counted.filter((offer) => fitsShards(offer, bytes))) : undefined;
  if (shared !== undefined) return shardRequest(bytes, shared, counted, defaultPartitions);
  const whole = cheapest(
    counted.filter(({ capacityBytes }) => isKnown(capacityBytes) && capacityBytes >= bytes),
  );
  const unmeasured = counted.find(({ capacityBytes }) => !isKnown(capacityBytes));
  if (whole === undefined && unmeasured === undefined) throw tooLarge(bytes, counted, place);
  return wholeRequest(need, whole ?? unmeasured, counted, defaultPartitions);
}

function hostRequest(bytes: Known<number>): SlurmRequest {
  const known = isKnown(bytes);
  return {
    gres: 'none',
    partition: 'default',
    memoryMebibytes: known ? Math.ceil((bytes + supervisorBytes) / MiB) : 'default',
    limitBytes: known ? bytes : 'none',
    contextBytes: 0,
    why: known ? `${formatBytes(bytes)} of host memory` : 'host memory, as the site gives it',
    notes: [],
  };
}

function shardsOf({ shardBytes }: GpuOffer, bytes: number): number {
  return typeof shardBytes === 'number' ? Math.max(1, Math.ceil(bytes / shardBytes)) : Infinity;
}

function fitsShards(offer: GpuOffer, bytes: number): boolean {
  return shardsOf(offer, bytes) <= offer.shardsPerGpu;
}

function cheapest(offers: readonly GpuOffer[]): GpuOffer | undefined {
  return offers.toSorted((a, b) => sizeOf(a) - sizeOf(b))[0];
}

function sizeOf({ capacityBytes }: GpuOffer): number {
  return isKnown(capacityBytes) ? capacityBytes : Infinity;
}

function shardRequest(
  bytes: number,
  offer: GpuOffer,
  counted: readonly GpuOffer[],
  defaults: readonly string[],
): SlurmRequest {
  const { shardBytes, type } = offer;
  const count = shardsOf(offer, bytes);
  const sizes = new Set(counted.filter((one) => one.shardsPerGpu > 0).map((one) => one.shardBytes));
  // A shard of another type may stand for less: then the type is part of the request.
  const gres = sizes.size > 1 && type !== '' ? `shard:${type}:${count}` : `shard:${count}`;
  const size = typeof shardBytes === 'number' ? shardBytes : 0;
  // Shards of nodes that the request also means must stand for as much.
  const feature = featureFor(offer, gres, counted, (one) => one.shardBytes === shardBytes);
  const host = hostOf(offer, { bytes, gpus: 1 }, count / offer.shardsPerGpu);
  return {
    gres,
    ...(feature && { constraint: feature }),
    partition: partitionFor([offer], defaults),
    ...host,
    limitBytes: count * size,
    contextBytes: offer.contextBytes,
    why: `${count} ${count === 1 ? 'shard' : 'shards'} of ${formatBytes(size)} on one GPU${inWords(type, feature)}${withHost(host)}`,
    notes: ambiguity(offer),
  };
}

function wholeRequest(
  { bytes, gpus }: ClusterNeed,
  offer: GpuOffer | undefined,
  counted: readonly GpuOffer[],
  defaults: readonly string[],
): SlurmRequest {
  const many = gpus === 1 ? 'one whole GPU' : `${gpus} whole GPUs`;
  const meant = offer === undefined || !isKnown(offer.capacityBytes) ? counted : [offer];
  const host = leastHostShare(meant.map((one) => hostOf(one, { bytes, gpus }, gpus)));
  const common = {
    ...host,
    limitBytes: 'none',
    contextBytes: offer?.contextBytes ?? 0,
  } as const;
  if (offer === undefined || !isKnown(bytes) || !isKnown(offer.capacityBytes)) {
    return {
      ...common,
      gres: `gpu:${gpus}`,
      partition: partitionFor(counted, defaults),
      why: `${many}${withHost(host)}`,
      notes: isKnown(bytes) ? [sizeUnknown(offer?.type || 'gpu')] : [needUnknown],
    };
  }
  const { type, capacityBytes } = offer;
  const gres = type === '' ? `gpu:${gpus}` : `gpu:${type}:${gpus}`;
  const isEnough = (one: GpuOffer) => isKnown(one.capacityBytes) && one.capacityBytes >= bytes;
  const feature = featureFor(offer, gres, counted, isEnough);
  return {
    ...common,
    gres,
    ...(feature && { constraint: feature }),
    partition: partitionFor([offer], defaults),
    why: `${many}${inWords(type, feature)}, ${formatBytes(capacityBytes)} each${withHost(host)}`,
    notes: ambiguity(offer),
  };
}

/**
 * The feature that nodes must have: where the GPUs of others, which the same words of a request mean,
 * are not enough. Without one the site tells no way to keep the job away from them.
 */
function featureFor(
  { feature }: GpuOffer,
  gres: string,
  counted: readonly GpuOffer[],
  isEnough: (offer: GpuOffer) => boolean,
): string | undefined {
  const isMeant = ({ type }: GpuOffer) => gres.split(':').length < 3 || gres.includes(`:${type}:`);
  return counted.every((one) => !isMeant(one) || isEnough(one)) ? undefined : feature;
}

function inWords(type: string, feature: string | undefined): string {
  const words = [type, feature === undefined ? '' : `feature ${feature}`];
  const said = words.filter((word) => word !== '').join(', ');
  return said === '' ? '' : ` (${said})`;
}

/** `taken`: how many GPUs, or which part of one. */
function hostOf({ nodes }: GpuOffer, { bytes, gpus }: ClusterNeed, taken: number): HostShare {
  const all = nodes.gpus.reduce((sum, { count }) => sum + count, 0);
  return hostShare(nodes, { share: Math.min(1, taken / all), gpus, needBytes: bytes });
}

function withHost({ memoryMebibytes, cpus }: HostShare): string {
  const words = [
    memoryMebibytes === 'default' ? '' : `${formatBytes(memoryMebibytes * MiB)} of host memory`,
    cpus === 'default' ? '' : `${cpus} CPUs`,
  ].filter((word) => word !== '');
  return words.length === 0 ? '' : `, with ${words.join(' and ')}`;
}

const needUnknown =
  'Nothing is known of what it needs: it gets whole GPUs, and its peak is measured.';

function sizeUnknown(type: string): string {
  return `How much memory a GPU of this site has is unknown. Name it in plimsoll.config.json: "slurm": { "gpuBytes": { "${type}": BYTES } }.`;
}

/** Nothing is said where jobs come to such nodes by themselves. */
function partitionFor(offers: readonly GpuOffer[], defaults: readonly string[]): string {
  const all = offers.flatMap(({ nodes }) => nodes.partitions);
  if (all.length === 0 || all.some((name) => defaults.includes(name))) return 'default';
  return [...new Set(all)].toSorted().join();
}

function ambiguity({ isAmbiguous, type, capacityBytes }: GpuOffer): readonly string[] {
  if (!isAmbiguous || !isKnown(capacityBytes)) return [];
  return [
    `Cards named ${type} have different sizes; ${formatBytes(capacityBytes)} is assumed. Name it in plimsoll.config.json: "slurm": { "gpuBytes": { "${type}": BYTES } }.`,
  ];
}

/** The request of a GPU job for host resources; `default` if the site decides. */
interface HostShare {
  /** In MiB, as Slurm counts. */
  readonly memoryMebibytes: number | 'default';
  readonly cpus: number | 'default';
}

/** Sites keep some processors and memory of a node for themselves, and do not say so in `sinfo`. */
const forJobs = 0.9;
/** Slurm counts 1 MiB if a site does not state the memory of its nodes. */
const leastStatedBytes = GiB;

/**
 * As much of the node as of its GPUs: what is left would be of no use to other jobs with GPUs. At least
 * the memory that the job needs by a rule. Where nothing is asked, Slurm may give one processor and,
 * at sites without a default, all memory of the node, so that no other job starts beside it.
 *
 * @example
 * hostShare(nodes, { share: 1 / 8, gpus: 1, needBytes }); // { memoryMebibytes: 230400, cpus: 14 }
 */
export function hostShare(
  { cpus, memoryBytes }: Pick<SlurmNodes, 'cpus' | 'memoryBytes'>,
  job: {
    /** Of the GPUs of the node, from 0 to 1. */
    readonly share: number;
    readonly gpus: number;
    readonly needBytes: Known<number>;
  },
): HostShare {
  const share = job.share * forJobs;
  return {
    memoryMebibytes:
      isKnown(memoryBytes) && memoryBytes >= leastStatedBytes
        ? Math.floor(memoryFor(memoryBytes, share, hostNeedBytes(job.gpus, job.needBytes)) / MiB)
        : 'default',
    cpus: isKnown(cpus) && cpus * share >= 2 ? Math.floor(cpus * share) : 'default',
  };
}

function memoryFor(memoryBytes: number, share: number, leastBytes: number): number {
  return Math.min(memoryBytes * forJobs, Math.max(memoryBytes * share, leastBytes));
}

/** The least of several, so that each of the nodes could take the job. */
export function leastHostShare(shares: readonly HostShare[]): HostShare {
  return {
    memoryMebibytes: least(shares.map(({ memoryMebibytes }) => memoryMebibytes)),
    cpus: least(shares.map(({ cpus }) => cpus)),
  };
}

function least(counts: readonly (number | 'default')[]): number | 'default' {
  const stated = counts.filter((count) => count !== 'default');
  return stated.length < counts.length || stated.length === 0 ? 'default' : Math.min(...stated);
}

/** Slurm's own default limit is 1,000; sites raise it to some 100,000. */
const maxTasks = 1_000_000;

/**
 * The tasks that an option of sbatch asks for; undefined where the job is no array.
 *
 * @example
 * arrayTasks(['--time=10', '--array=0-4:2,9%3']); // [0, 2, 4, 9]
 */
export function arrayTasks(options: readonly string[]): readonly number[] | undefined {
  const spec = arraySpec(options);
  if (spec === undefined) return undefined;
  const tasks = new Set<number>();
  for (const part of spec.replace(/%\d+$/, '').split(',')) {
    const [, from, to, step] = /^(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?$/.exec(part.trim()) ?? [];
    const first = Number(from);
    const last = to === undefined ? first : Number(to);
    const by = step === undefined ? 1 : Number(step);
    if (from === undefined || by < 1 || last < first) throw badArray(spec);
    for (let task = first; task <= last; task += by) {
      tasks.add(task);
      if (tasks.size > maxTasks) throw badArray(spec);
    }
  }
  return [...tasks].toSorted((a, b) => a - b);
}

/** The same options without the array: a successor is one task of it. */
export function withoutArray(options: readonly string[]): readonly string[] {
  return options.filter((option, index) => !isArray(option) && !takesNext(options[index - 1]));
}

function arraySpec(options: readonly string[]): string | undefined {
  const index = options.findLastIndex(isArray);
  const option = options[index];
  if (option === undefined) return undefined;
  return takesNext(option) ? (options[index + 1] ?? '') : option.replace(/^(--array=|-a=?)/, '');
}

function isArray(option: string): boolean {
  return /^(--array(=|$)|-a)/.test(option) && !/^-a[a-z]/.test(option);
}

function takesNext(option: string | undefined): boolean {
  return option === '--array' || option === '-a';
}

function badArray(spec: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--array cannot be "${spec.slice(0, 100)}".`,
    next: 'It takes tasks such as 0-9, 1,3,5 or 0-99%4.',
  });
}
