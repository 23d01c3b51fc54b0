import { userInfo } from 'node:os';
import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Place } from '../job-failures.js';
import { type SlurmCommand, slurmDocument } from './commands.js';
import {
  type GpuOffer,
  gpuOffers,
  readNodes,
  type SlurmNodes,
  type SlurmSettings,
} from './nodes.js';
import { type ClusterNeed, type SlurmRequest, slurmRequest } from './request.js';

/** The cluster's offer for one job, at one moment. */
export interface SlurmCluster extends Place {
  readonly nodes: readonly SlurmNodes[];
  readonly offers: readonly GpuOffer[];
  /** The default partitions; empty if they are closed to the job. */
  readonly defaultPartitions: readonly string[];
  readonly notes: readonly string[];
}

/** The options of a job that decide which partitions take it. */
export interface SlurmTarget {
  /** None where the job names none. */
  readonly partitions: readonly string[];
  readonly account: Known<string>;
  readonly qos: Known<string>;
  readonly hasReservation: boolean;
}

/** Environment variables that `sbatch` reads as options. */
const variables: readonly (readonly [string, string])[] = [
  ['SBATCH_PARTITION', '--partition'],
  ['SBATCH_ACCOUNT', '--account'],
  ['SBATCH_QOS', '--qos'],
  ['SBATCH_RESERVATION', '--reservation'],
];

/** The options that variables stand for; a successor, which has another environment, needs them, too. */
export function optionsOf(
  environment: Readonly<Record<string, string | undefined>>,
): readonly string[] {
  return variables.flatMap(([name, option]) => {
    const value = environment[name];
    return value === undefined || value === '' ? [] : [`${option}=${value}`];
  });
}

/**
 * Returns the partitions and nodes that options of sbatch choose. Slurm takes the last of several
 * options, and accepts shortened long ones.
 *
 * @example
 * targetOf(['--partition=a100,h100', '-Alab']).partitions; // ['a100', 'h100']
 */
export function targetOf(options: readonly string[]): SlurmTarget {
  return {
    partitions: wordsOf(lastOf(options, /^(?:--part(?:i(?:t(?:i(?:on?)?)?)?)?=|-p)(.+)$/) ?? ''),
    account: lastOf(options, /^(?:--acco(?:u(?:nt?)?)?=|-A)(.+)$/) ?? 'unknown',
    qos: lastOf(options, /^(?:--qos?=|-q)(.+)$/) ?? 'unknown',
    hasReservation:
      lastOf(options, /^--rese(?:r(?:v(?:a(?:t(?:i(?:on?)?)?)?)?)?)?=(.+)$/) !== undefined,
  };
}

function lastOf(options: readonly string[], pattern: RegExp): string | undefined {
  return options
    .map((option) => pattern.exec(option)?.[1])
    .findLast((value) => value !== undefined);
}

function wordsOf(list: string): readonly string[] {
  return list.split(',').filter((word) => word !== '');
}

/** A partition as `scontrol` describes it, by Slurm's own names. */
export type SlurmPartition = ReadonlyMap<string, string>;

/**
 * The partitions in what `scontrol --oneliner show partition` prints. It leaves out those that are hidden,
 * and those that are for other groups.
 */
export function readPartitions(text: string): readonly SlurmPartition[] {
  return text
    .split('\n')
    .map(
      (line) =>
        new Map([...line.matchAll(/(\w+)=(\S*)/g)].map(([, key = '', value = '']) => [key, value])),
    )
    .filter((partition) => partition.has('PartitionName'));
}

/** Why Slurm starts no such job in a partition; undefined where it does. */
export function closedWhy(
  partition: SlurmPartition,
  { account, qos, hasReservation }: Omit<SlurmTarget, 'partitions'>,
  isRoot: boolean,
): string | undefined {
  const is = (key: string) => partition.get(key) === 'YES';
  const state = partition.get('State') ?? 'UP';
  if (state !== 'UP') return `its state is ${state}`;
  if (isRoot ? is('DisableRootJobs') : is('RootOnly'))
    return isRoot ? 'not for root' : 'for root alone';
  if (is('ReqResv') && !hasReservation) return 'for jobs with a reservation';
  return (
    closedList(partition, 'Accounts', account, true) ??
    closedList(partition, 'Qos', qos, isKnown(qos))
  );
}

/** `needed`: a job of which the name is not known may not use what is for certain names. */
function closedList(
  partition: SlurmPartition,
  kind: 'Accounts' | 'Qos',
  name: Known<string>,
  needed: boolean,
): string | undefined {
  const allowed = partition.get(`Allow${kind}`) ?? 'ALL';
  const words = kind === 'Qos' ? 'QOS' : 'accounts';
  if (allowed !== 'ALL' && needed && !wordsOf(allowed).includes(name))
    return `for ${words} ${allowed}`;
  const denied = partition.get(`Deny${kind}`) ?? '';
  return wordsOf(denied).includes(name) ? `not for ${words} ${denied}` : undefined;
}

/** Reads the cluster's offer for a job with these options. */
export async function readCluster(
  run: SlurmCommand,
  settings: SlurmSettings,
  configured: readonly GpuEntry[],
  options: readonly string[],
): Promise<SlurmCluster> {
  const [json, text] = await Promise.all([
    // With --all also those that only a job which names them reaches.
    run('sinfo', ['--all', '--json']),
    run('scontrol', ['--oneliner', 'show', 'partition']),
  ]);
  const target = targetOf(options);
  const partitions = readPartitions(text);
  const account = isKnown(target.account) ? target.account : await usualAccount(run, partitions);
  const isRoot = process.getuid?.() === 0;
  const closed = new Map(
    partitions.flatMap((partition) => {
      const why = closedWhy(partition, { ...target, account }, isRoot);
      return why === undefined ? [] : [[nameOf(partition), why]];
    }),
  );
  const named = target.partitions;
  const open =
    named.length > 0 ? named : partitions.map(nameOf).filter((name) => !closed.has(name));
  const nodes = reachable(readNodes(slurmDocument(json, 'sinfo')), open);
  return {
    nodes,
    offers: gpuOffers(nodes, settings, configured),
    // A job that names partitions says so itself.
    defaultPartitions:
      named.length > 0
        ? named
        : partitions
            .filter(isDefault)
            .map(nameOf)
            .filter((name) => open.includes(name)),
    place: named.length > 0 ? `partition ${named.join()}` : 'this cluster',
    closed: named.length > 0 ? [] : [...closed].map(([name, why]) => `${name} (${why})`),
    notes: named.flatMap((name) => {
      const why = closed.get(name);
      return why === undefined ? [] : [`Partition ${name} is closed to this job: ${why}.`];
    }),
  };
}

/** The request for what a job needs, of a cluster that was read for it. */
export function requestIn(cluster: SlurmCluster, need: ClusterNeed): SlurmRequest {
  const request = slurmRequest(need, cluster.offers, cluster.defaultPartitions, cluster);
  return { ...request, notes: [...request.notes, ...cluster.notes] };
}

function isDefault(partition: SlurmPartition): boolean {
  return partition.get('Default') === 'YES';
}

function nameOf(partition: SlurmPartition): string {
  return partition.get('PartitionName') ?? '';
}

function reachable(nodes: readonly SlurmNodes[], open: readonly string[]): readonly SlurmNodes[] {
  return nodes
    .map((group) => ({
      ...group,
      partitions: group.partitions.filter((name) => open.includes(name)),
    }))
    .filter(({ partitions }) => partitions.length > 0);
}

/** Asked only where a partition is for certain accounts; a site without accounting answers none. */
async function usualAccount(
  run: SlurmCommand,
  partitions: readonly SlurmPartition[],
): Promise<Known<string>> {
  const isAll = (partition: SlurmPartition) =>
    (partition.get('AllowAccounts') ?? 'ALL') === 'ALL' && !partition.has('DenyAccounts');
  if (partitions.every(isAll)) return 'unknown';
  const words = ['--noheader', '--parsable2', 'show', 'user', userInfo().username];
  const text = await run('sacctmgr', [...words, 'format=DefaultAccount']).catch(() => '');
  const [account = ''] = text.trim().split('\n');
  return account === '' ? 'unknown' : account;
}
