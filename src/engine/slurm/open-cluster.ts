import type { GpuEntry } from '../../estimate/cards/gpus.js';
import type { SlurmCommand } from './commands.js';
import { type GpuOffer, gpuOffers, type SlurmSettings } from './gpu-types.js';
import { readNodes, type SlurmNodes } from './nodes.js';
import { slurmDocument } from './values.js';

/** What a cluster has, at one moment. */
export interface SlurmCluster {
  readonly nodes: readonly SlurmNodes[];
  readonly offers: readonly GpuOffer[];
  /** Where jobs go that name no partition. */
  readonly defaultPartitions: readonly string[];
}

export async function readCluster(
  run: SlurmCommand,
  settings: SlurmSettings,
  configured: readonly GpuEntry[],
): Promise<SlurmCluster> {
  const [json, partitions] = await Promise.all([
    run('sinfo', ['--json']),
    // The default one has a star; the JSON of 22.05 does not tell.
    run('sinfo', ['--noheader', '--format=%P']),
  ]);
  const nodes = readNodes(slurmDocument(json, 'sinfo'));
  const names = partitions.split('\n').map((line) => line.trim());
  return {
    nodes,
    offers: gpuOffers(nodes, settings, configured),
    defaultPartitions: names.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1)),
  };
}
