import { z } from '@hono/zod-openapi';
import { bases } from '../../jobs/basis.js';
import { bytes, known } from './common.js';

/** What a program can be started with. */
export const settingsSchema = z.object({
  batch_size: known(z.number()),
  accumulation: z.number(),
  checkpointing: z.boolean(),
  precision: z.string(),
  offload: z.boolean(),
  device: z.string(),
  simulated_device: z.boolean().optional(),
});

/** What was changed so that a job fits. */
export const degradedSettings = {
  batch: z.number(),
  accumulation: z.number(),
  checkpointing: z.literal(true).optional(),
  precision: z.string().optional(),
};

const basis = z.enum(bases);
const owner = z.string();
const tooLarge = { bytes, basis, gpus: z.int(), largestBytes: bytes };
const earlierText = z.object({ code: z.literal('earlier-text'), text: z.string() });
const programEnd = { exitCode: known(z.number()), signal: z.string().nullable() };

/** As `DegradedReason` has it. */
export const degradedReasonSchema = z.discriminatedUnion('code', [
  z.object({
    code: z.literal('degraded'),
    ...tooLarge,
    settings: z.object(degradedSettings),
    degradedBytes: bytes,
  }),
  earlierText,
]);

/** As `JobReason` has it. */
export const jobReasonSchema = z
  .discriminatedUnion('code', [
    z.object({ code: z.literal('no-device') }),
    z.object({ code: z.literal('too-few-gpus'), askedGpus: z.int(), foundGpus: z.int() }),
    z.object({
      code: z.literal('too-large'),
      ...tooLarge,
      smallest: z.object({ settings: z.object(degradedSettings), bytes }).optional(),
      missesPlaceholders: z.boolean().optional(),
    }),
    z.object({ code: z.literal('over-quota'), owner, bytes, basis, maxMemoryBytes: bytes }),
    z.object({ code: z.literal('cancelled'), during: z.enum(['waiting', 'running']) }),
    z.object({ code: z.literal('expired') }),
    z.object({ code: z.literal('recovered'), times: z.int(), settings: settingsSchema }),
    z.object({
      code: z.literal('out-of-memory'),
      times: z.int(),
      askedBytes: known(bytes),
      peakBytes: known(bytes),
    }),
    z.object({ code: z.enum(['exited', 'interrupted']), ...programEnd }),
    z.object({ code: z.literal('over-reservation'), usedBytes: bytes, reservedBytes: bytes }),
    z.object({ code: z.enum(['not-started', 'lost']), message: z.string() }),
    z.object({ code: z.literal('damaged-record'), column: z.string() }),
    earlierText,
  ])
  .openapi('JobReason', { description: 'Why a job is in its state; for programs.' });

/** As `NeedReason` has it. */
export const needReasonSchema = z
  .discriminatedUnion('code', [
    z.object({ code: z.literal('stated'), bytes, runs: z.int(), maxPeakBytes: known(bytes) }),
    z.object({ code: z.literal('no-estimate'), traceFailure: z.string().nullable() }),
    z.object({ code: z.literal('estimated'), bytes, traced: z.boolean() }),
    z.object({
      code: z.literal('measured'),
      runs: z.int(),
      outOfMemory: z.int(),
      maxPeakBytes: bytes,
      marginBytes: bytes,
      estimatedBytes: known(bytes),
      wholeDevice: z.boolean(),
    }),
    earlierText,
  ])
  .openapi('NeedReason', { description: 'What the figure of a need rests on; for programs.' });

/** As `OrderReason` has it. */
export const orderReasonSchema = z
  .discriminatedUnion('code', [
    z.object({
      code: z.literal('priority'),
      jobId: z.string(),
      priority: z.int(),
      ownPriority: z.int(),
    }),
    z.object({ code: z.literal('earlier'), jobId: z.string(), seconds: z.int() }),
    z.object({ code: z.enum(['larger', 'longer', 'first-of-workload']), jobId: z.string() }),
  ])
  .openapi('OrderReason', { description: 'Why the job before it is there; for programs.' });

/** As `WaitingReason` has it. */
export const waitingReasonSchema = z
  .discriminatedUnion('code', [
    z.object({ code: z.literal('concurrency-limit'), limit: z.int() }),
    z.object({ code: z.literal('job-quota'), owner, maxJobs: z.int(), runningJobs: z.int() }),
    z.object({
      code: z.literal('memory-quota'),
      owner,
      bytes,
      maxMemoryBytes: bytes,
      reservedBytes: bytes,
    }),
    z.object({ code: z.enum(['device-not-read', 'starting']) }),
    z.object({ code: z.literal('behind-job'), jobId: z.string() }),
    z.object({
      code: z.enum(['memory-in-use', 'other-processes', 'memory-being-released']),
      bytes,
      devices: z.int(),
      wholeDevice: z.boolean(),
      freeBytes: bytes,
      keptDevices: z.array(z.string()),
    }),
    z.object({ code: z.literal('jobs-ahead'), jobs: z.int() }),
  ])
  .openapi('WaitingReason', { description: 'Why a job waits; for programs.' });
