import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { isKnown, type Known } from '../../units/known.js';
import { cardOf, type OfferedCard } from '../card-of.js';
import type { SlurmNodes } from './nodes.js';

/** What the configuration says about a site; Slurm itself knows no GPU's memory. */
export interface SlurmSettings {
  /** What one shard stands for. */
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
  /** What one shard stands for; `none` where the nodes have no shards. */
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
