import type { Fleet } from '../../fleet/types.js';
import { GiB } from '../../units/bytes.js';

/** What the document shows. */
export const fleetExample: Fleet = {
  epochMs: 1_767_225_600_000,
  windowSeconds: 3600,
  totals: {
    nodes: 1,
    silentNodes: 0,
    of: 'gpu',
    devices: 1,
    simulated: 0,
    totalBytes: 80 * GiB,
    usedBytes: 20 * GiB,
    reservedBytes: 60 * GiB,
    unusedBytes: 40 * GiB,
    atRisk: 0,
    leaking: 0,
    jobs: 1,
    trainings: 0,
  },
  nodes: [
    {
      name: 'n1',
      silent: false,
      devices: [
        {
          id: 'gpu:0',
          name: 'NVIDIA H100 80GB HBM3',
          provenance: 'measured',
          silent: false,
          totalBytes: 80 * GiB,
          usedBytes: 20 * GiB,
          loadLineBytes: 72 * GiB,
          reservedBytes: 60 * GiB,
          unusedBytes: 40 * GiB,
          risk: 'none',
          etaSeconds: null,
          leakBytesPerSecond: null,
        },
      ],
    },
  ],
  leaks: [],
  wasteful: [
    {
      node: 'n1',
      engine: 'slurm',
      id: '4711',
      name: 'train',
      devices: ['gpu:0'],
      reservedBytes: 60 * GiB,
      usedBytes: 20 * GiB,
      peakBytes: 21 * GiB,
    },
  ],
  trainings: [],
  history: {
    epochMs: [1_767_225_600_000],
    totalBytes: [80 * GiB],
    usedBytes: [20 * GiB],
    reservedBytes: [60 * GiB],
  },
};
