import { z } from '@hono/zod-openapi';
import { bytes, known, version } from './common.js';

/** As `WorkersStatus` has it. */
export const workersStatusSchema = z
  .object({
    ...version,
    activeJobs: z.int(),
    waitingJobs: z.int(),
    reservedBytes: bytes,
    waitingBytes: bytes,
    devices: z.array(
      z.object({
        id: z.string(),
        totalBytes: known(bytes),
        usedBytes: known(bytes),
        freeBytes: known(bytes),
        usedPercent: known(z.number()),
        status: z.string(),
      }),
    ),
  })
  .openapi('WorkersStatus');

/** The names of an earlier tool; its MB are MiB. */
export const legacyStatusSchema = z
  .object({
    ...version,
    active_jobs: z.int(),
    pending_jobs: z.int(),
    total_allocated_mb: z.number().openapi({ description: 'MiB, as the earlier tool counted.' }),
    pending_requirements_mb: z.number(),
  })
  .openapi('LegacyWorkersStatus');

export const healthSchema = z
  .object({
    ...version,
    status: z.enum(['ok', 'failing']),
    why: z.string().openapi({ description: 'Empty where all is well.' }),
    version: z.string(),
    uptimeSeconds: z.number(),
  })
  .openapi('Health');
