import { type GpuEntry, gpusNamed } from '../../estimate/cards/gpus.js';
import { isKnown, type Known } from '../../units/known.js';
import type { SlurmNodes } from './nodes.js';

/** What the configuration says about a site; Slurm itself knows no GPU's memory. */
export interface SlurmSettings {
  /** What one shard stands for. */
  readonly shardBytes?: number | undefined;
  /** Bytes of a GPU, by its type in Slurm. */
  readonly gpuBytes?: Readonly<Record<string, number>> | undefined;
}

/** GPUs of one type that a group of nodes has. */
export interface GpuOffer {
  readonly nodes: SlurmNodes;
  /** Empty where the site names none. */
  readonly type: string;
  /** On one node. */
  readonly count: number;
  readonly capacityBytes: Known<number>;
  readonly contextBytes: number;
  /** What one shard stands for; `none` where the nodes have no shards. */
  readonly shardBytes: Known<number> | 'none';
  /** Of one GPU. */
  readonly shardsPerGpu: number;
  /** The name may mean cards of several sizes; the smallest is taken. */
  readonly isAmbiguous: boolean;
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
        const card = cardOf(type, group.features, settings, configured);
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

function cardOf(
  type: string,
  features: readonly string[],
  { gpuBytes = {} }: SlurmSettings,
  configured: readonly GpuEntry[],
): Pick<GpuOffer, 'capacityBytes' | 'contextBytes' | 'isAmbiguous'> {
  const named = type === '' ? [] : gpusNamed(type, configured);
  const said = gpuBytes[type] ?? gpuBytes[type === '' ? 'gpu' : type];
  const contextBytes = Math.max(0, ...named.map(({ context }) => context.bytes));
  if (said !== undefined) return { capacityBytes: said, contextBytes, isAmbiguous: false };
  // Features often say what the type leaves open: a100 with the feature a100-80gb.
  const featured = features
    .map((feature) => gpusNamed(feature, configured))
    .filter((cards) => cards.length === 1)
    .flat()
    .find((card) => named.length === 0 || named.includes(card));
  const cards = featured === undefined ? named : [featured];
  const capacities = cards.map(({ capacityBytes }) => capacityBytes);
  return {
    capacityBytes: cards.length === 0 ? 'unknown' : Math.min(...capacities),
    contextBytes: Math.max(0, ...cards.map(({ context }) => context.bytes)),
    isAmbiguous: new Set(capacities).size > 1,
  };
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
