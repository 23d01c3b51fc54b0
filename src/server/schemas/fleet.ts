import { z } from '@hono/zod-openapi';
import { risks } from '../../watch/types.js';
import { bytes, epochMs, known, seconds, version } from './common.js';

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
