import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { cardOf, type OfferedCard } from '../cluster.js';
import { objectIn, objectsIn, textIn } from '../job-folder.js';
import { numberIn, wordsIn } from './commands.js';

/** Nodes of a cluster that are alike: their resources, and where jobs reach them. */
export interface SlurmNodes {
  readonly names: readonly string[];
  readonly partitions: readonly string[];
  readonly features: readonly string[];
  readonly cpus: Known<number>;
  readonly memoryBytes: Known<number>;
  /** By type; none on a node without GPUs. */
  readonly gpus: readonly GresCount[];
  /** Of all GPUs of one node together; 0 where the site has none. */
  readonly shards: number;
  /** Jobs can start there, now or after others ended. */
  readonly isUsable: boolean;
}

type Document = Readonly<Record<string, unknown>>;

/** States in which a node takes no jobs until somebody repairs it. */
const unusable = /down|drain|fail|maint|power(ed|ing)_down|unknown|invalid|not_responding/i;

/**
 * The nodes in what `sinfo --json` prints. Slurm 22.05 lists nodes; from 23.02 on it lists groups of
 * nodes that are alike, one for each partition.
 */
export function readNodes(document: Document): readonly SlurmNodes[] {
  if (Array.isArray(document['nodes'])) return objectsIn(document['nodes']).map(ofNode);
  return merged(objectsIn(document['sinfo']).map(ofGroup));
}

function ofNode(node: Document): SlurmNodes {
  const states = [...wordsIn(node['state']), ...wordsIn(node['state_flags'])];
  return {
    names: [textIn(node['name'])],
    partitions: wordsIn(node['partitions']),
    features: wordsIn(node['features']),
    cpus: numberIn(node['cpus']),
    memoryBytes: mebibytes(numberIn(node['real_memory'])),
    ...gresOf(textIn(node['gres'])),
    isUsable: !states.some((state) => unusable.test(state)),
  };
}

function ofGroup(group: Document): SlurmNodes {
  const names = wordsIn(objectIn(group['nodes'])['nodes']);
  const states = wordsIn(objectIn(group['node'])['state']);
  const partition = textIn(objectIn(group['partition'])['name']);
  return {
    names,
    partitions: partition === '' ? [] : [partition],
    features: wordsIn(objectIn(group['features'])['total']),
    cpus: numberIn(objectIn(group['cpus'])['minimum']),
    memoryBytes: mebibytes(numberIn(objectIn(group['memory'])['minimum'])),
    ...gresOf(textIn(objectIn(group['gres'])['total'])),
    isUsable: names.length > 0 && !states.some((state) => unusable.test(state)),
  };
}

/** A group comes once for each partition that its nodes are in. */
function merged(groups: readonly SlurmNodes[]): readonly SlurmNodes[] {
  const byNames = new Map<string, SlurmNodes>();
  for (const group of groups) {
    const key = group.names.toSorted().join();
    const before = byNames.get(key);
    const partitions = [...new Set([...(before?.partitions ?? []), ...group.partitions])];
    byNames.set(key, { ...group, partitions });
  }
  return [...byNames.values()];
}

function gresOf(text: string): Pick<SlurmNodes, 'gpus' | 'shards'> {
  const all = parseGres(text);
  const shards = all.filter(({ name }) => name === 'shard');
  return {
    gpus: all.filter(({ name }) => name === 'gpu'),
    shards: shards.reduce((sum, { count }) => sum + count, 0),
  };
}

function mebibytes(count: Known<number>): Known<number> {
  return isKnown(count) ? count * MiB : 'unknown';
}

/** GPUs of one type on a node, or shards of them. */
interface GresCount {
  readonly name: string;
  /** Empty where the site names none. */
  readonly type: string;
  readonly count: number;
}

/**
 * Reads the GPUs of a node, as Slurm writes them.
 *
 * @example
 * parseGres('gpu:a100:2(S:0-1),shard:160'); // [{ name: 'gpu', type: 'a100', count: 2 }, { name: 'shard', type: '', count: 160 }]
 */
export function parseGres(text: string): readonly GresCount[] {
  const parts = text.replaceAll(/\([^()]*\)/g, '').split(',');
  return parts.flatMap((part) => {
    const [name = '', ...rest] = part
      .trim()
      .replace(/^gres[/:]/, '')
      .split(':');
    const last = rest.at(-1) ?? '1';
    const count = counted(last);
    if (name === '' || name === '(null)') return [];
    const type = count === undefined ? rest.join(':') : rest.slice(0, -1).join(':');
    return [{ name, type, count: count ?? 1 }];
  });
}

/** `8`, or `1K` as Slurm shortens large counts. */
function counted(text: string): number | undefined {
  const [, digits, unit = ''] = /^(\d{1,12})([KMG]?)$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  return Number(digits) * 1024 ** ['', 'K', 'M', 'G'].indexOf(unit);
}

/** The configuration of a site; Slurm itself does not know the memory of a GPU. */
export interface SlurmSettings {
  /** Bytes of one shard. */
  readonly shardBytes?: number | undefined;
  /** Bytes of a GPU, by its type in Slurm. */
  readonly gpuBytes?: Readonly<Record<string, number>> | undefined;
}

/** GPUs of one type that a group of nodes has. */
export interface GpuOffer extends OfferedCard {
  readonly nodes: SlurmNodes;
  /** Empty where the site names none. */
  readonly type: string;
  /** On one node. */
  readonly count: number;
  /** Bytes of one shard; `none` if the nodes have no shards. */
  readonly shardBytes: Known<number> | 'none';
  /** Of one GPU. */
  readonly shardsPerGpu: number;
}

/** Everything that a cluster has to offer, type by type. */
export function gpuOffers(
  nodes: readonly SlurmNodes[],
  settings: SlurmSettings,
  configured: readonly GpuEntry[],
): readonly GpuOffer[] {
  return nodes
    .filter(({ isUsable }) => isUsable)
    .flatMap((group) =>
      group.gpus.map(({ type, count }) => {
        const card = cardOf(type, group.features, settings.gpuBytes ?? {}, configured);
        const all = group.gpus.reduce((sum, gpu) => sum + gpu.count, 0);
        const shardsPerGpu = all === 0 ? 0 : Math.floor(group.shards / all);
        return {
          nodes: group,
          type,
          count,
          ...card,
          shardsPerGpu,
          shardBytes: shardSize(card.capacityBytes, shardsPerGpu, settings),
        };
      }),
    );
}

function shardSize(
  capacityBytes: Known<number>,
  shardsPerGpu: number,
  { shardBytes }: SlurmSettings,
): GpuOffer['shardBytes'] {
  if (shardsPerGpu === 0) return 'none';
  if (shardBytes !== undefined) return shardBytes;
  return isKnown(capacityBytes) ? Math.floor(capacityBytes / shardsPerGpu) : 'unknown';
}
