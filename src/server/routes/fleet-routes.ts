import { z } from '@hono/zod-openapi';
import { Failure } from '../../failure.js';
import type { Fleet } from '../../fleet/document.js';
import { GiB } from '../../units/bytes.js';
import { risks } from '../../watch/types.js';
import { bytes, epochMs, known, seconds, version } from '../schemas/common.js';
import {
  jsonAnswer,
  jsonContent,
  noBody,
  nothing,
  type Operation,
  operation,
} from './operation.js';

/** Asks the Prometheus of this server. */
export type FleetSource = () => Promise<Fleet>;

export function fleetOperation(source: FleetSource | undefined): Operation {
  return operation({
    method: 'get',
    path: '/fleet',
    id: 'getFleet',
    tag: 'devices',
    summary: 'All nodes that the Prometheus of this server scrapes',
    description: 'Where the server was started with --prometheus. The answer may be 10 s old.',
    params: nothing,
    query: nothing,
    body: noBody,
    answers: { 200: jsonContent(fleetSchema, 'The fleet.', fleetExample) },
    errors: [404, 503],
    handle: async () => {
      if (source === undefined) throw noFleet();
      return jsonAnswer(await source());
    },
  });
}

function noFleet(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-fleet',
    fact: 'This server was started without a Prometheus.',
    next: 'Start it with: plimsoll serve --prometheus http://prometheus:9090',
  });
}

const rate = z.number().nullable().openapi({ description: 'Null where no leak was found.' });
const eta = seconds.nullable().openapi({
  description: 'Seconds until it is expected to be full; null where that is not expected.',
});

const device = z.object({
  id: z.string(),
  name: z.string(),
  provenance: known(z.enum(['measured', 'simulated'])),
  silent: z.boolean().openapi({ description: 'It was described earlier, and is not now.' }),
  totalBytes: known(bytes),
  usedBytes: known(bytes),
  loadLineBytes: known(bytes),
  reservedBytes: bytes,
  unusedBytes: known(bytes).openapi({ description: 'Reserved by jobs that do not use it now.' }),
  risk: known(z.enum(risks)),
  etaSeconds: eta,
  leakBytesPerSecond: rate,
});

const job = z.object({
  node: z.string(),
  engine: z.string(),
  id: z.string(),
  name: z.string(),
  devices: z.array(z.string()),
  reservedBytes: bytes.nullable(),
  usedBytes: known(bytes),
  peakBytes: known(bytes),
});

const leak = z.object({
  node: z.string(),
  device: z.string(),
  bytesPerSecond: z.number(),
  etaSeconds: eta,
  process: z.object({ pid: z.string(), name: z.string(), user: z.string() }).nullable(),
});

const training = z
  .object({
    engine: z.string(),
    id: z.string(),
    name: z.string(),
    worldSize: known(z.int()),
    ranks: z.array(
      z.object({
        rank: z.int(),
        node: z.string(),
        device: z.string(),
        usedBytes: bytes,
        freeBytes: known(bytes),
        risk: known(z.enum(risks)),
        etaSeconds: eta,
        leakBytesPerSecond: rate,
      }),
    ),
    tightest: known(z.int()).openapi({ description: 'The rank with the least free memory.' }),
    spreadBytes: bytes,
    leaking: z.array(z.int()),
    missing: known(z.int()),
    warnings: z.array(z.string()),
  })
  .openapi('FleetTraining', { description: 'The ranks of one training on all nodes.' });

const sums = z.array(z.number().nullable());

/** As `Fleet` has it. */
export const fleetSchema = z
  .object({
    ...version,
    epochMs,
    windowSeconds: seconds,
    totals: z.object({
      nodes: z.int(),
      silentNodes: z.int(),
      of: z.enum(['gpu', 'host']),
      devices: z.int(),
      simulated: z.int(),
      totalBytes: bytes,
      usedBytes: bytes,
      reservedBytes: bytes,
      unusedBytes: bytes,
      atRisk: z.int(),
      leaking: z.int(),
      jobs: z.int(),
      trainings: z.int(),
    }),
    nodes: z
      .array(z.object({ name: z.string(), silent: z.boolean(), devices: z.array(device) }))
      .openapi({ description: 'The greatest risk first.' }),
    leaks: z.array(leak),
    wasteful: z
      .array(job)
      .openapi({ description: 'Jobs that reserved most above their peak, at most 100.' }),
    trainings: z.array(training),
    history: z.object({
      epochMs: z.array(epochMs),
      totalBytes: sums,
      usedBytes: sums,
      reservedBytes: sums,
    }),
  })
  .openapi('Fleet', { description: 'All nodes that a Prometheus scrapes.' });

/** An example for the document. */
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
