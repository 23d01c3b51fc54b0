import { MiB } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { objectIn, objectsIn, textIn } from '../json-values.js';
import { type GresCount, parseGres } from './gres.js';
import { numberIn, wordsIn } from './values.js';

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
