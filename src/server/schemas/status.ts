import { z } from '@hono/zod-openapi';
import { bytes, known } from './common.js';

/** As `WorkersStatus` has it, and beside it the names of an older tool. */
export const workersStatusSchema = z
  .object({
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
    active_jobs: z.int(),
    pending_jobs: z.int(),
    total_allocated_mb: z.number().openapi({ description: 'MiB, as the older tool counted.' }),
    pending_requirements_mb: z.number(),
  })
  .openapi('WorkersStatus');

export const healthSchema = z
  .object({
    status: z.enum(['ok', 'failing']),
    why: z.string().openapi({ description: 'Empty where all is well.' }),
    version: z.string(),
    uptimeSeconds: z.number(),
  })
  .openapi('Health');

export const sessionRequestSchema = z
  .strictObject({
    token: z.string().min(1).max(1000).optional(),
    code: z
      .string()
      .min(1)
      .max(1000)
      .optional()
      .openapi({ description: 'Of a link of POST /session/link, instead of the token.' }),
  })
  .refine(({ token, code }) => (token === undefined) !== (code === undefined), {
    message: 'Send either token or code.',
  })
  .openapi('SessionRequest');

export const loginLinkSchema = z
  .object({
    path: z.string().openapi({ description: 'What follows the address of this server.' }),
  })
  .openapi('LoginLink');

export const proofSchema = z
  .object({
    proof: z.string().openapi({
      description: 'HMAC-SHA256 of "plimsoll server NONCE" with the token as its key, base64url.',
    }),
  })
  .openapi('Proof');
