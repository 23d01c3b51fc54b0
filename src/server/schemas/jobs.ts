import { isAbsolute } from 'node:path';
import { z } from '@hono/zod-openapi';
import { bases } from '../../jobs/basis.js';
import { jobStates } from '../../jobs/types.js';
import { environmentChangers } from '../../plan/environment/job-environment.js';
import { rungs } from '../../run/types.js';
import { bytes, epochMs, known, moment, provenance, seconds, version } from './common.js';
import { workloadRequestSchema } from './workload.js';

/** What a program can be started with. */
const settingsSchema = z.object({
  batch_size: known(z.number()),
  accumulation: z.number(),
  checkpointing: z.boolean(),
  precision: z.string(),
  offload: z.boolean(),
  device: z.string(),
  simulated_device: z.boolean().optional(),
});

/** What was changed so that a job fits. */
const degradedSettings = {
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
    z.object({ code: z.literal('estimating') }),
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
const orderReasonSchema = z
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
    z.object({
      code: z.literal('estimating'),
      ahead: z.int(),
      doing: z.string(),
      share: known(z.number()),
    }),
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

/** No program can be given one. */
const withoutZero = (text: string): boolean => !text.includes('\0');
const noZero = 'It takes a text without zero bytes.';
const commandWord = z
  .string()
  .max(256 * 1024)
  .refine(withoutZero, noZero);

const variableValue = z.string().max(4096).nullable();
const environmentChange = z
  .object({
    name: z.string().min(1).max(1000),
    from: variableValue.openapi({ description: 'null: it was not set.' }),
    to: variableValue.openapi({ description: 'null: it was removed.' }),
    by: z.enum(environmentChangers),
    reason: z.string().max(4096),
  })
  .openapi('EnvironmentChange');

/** As `JobRequest` has it; the store of the jobs has limits of its own beside. */
export const jobRequestSchema = z
  .strictObject({
    command: z
      .array(commandWord)
      .min(1)
      .max(10_000)
      .openapi({ description: 'The program and its arguments; no shell is involved.' }),
    memoryBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional().openapi({
      description: 'What it takes of each device, all in all, the CUDA context included.',
    }),
    workload: workloadRequestSchema.optional(),
    priority: z
      .int()
      .min(-100)
      .max(100)
      .optional()
      .openapi({ description: 'The higher, the sooner.' }),
    gpus: z.int().min(0).max(64).optional().openapi({
      description: "1 where it is left out; 0 asks for the host's memory.",
    }),
    timeoutSeconds: z
      .number()
      .min(0.001)
      .max(10 * 365 * 24 * 3600)
      .optional()
      .openapi({ description: 'How long it may wait; then it is "expired".' }),
    cwd: z
      .string()
      .min(1)
      .max(4096)
      .refine(isAbsolute, 'It takes an absolute path on the machine of the server.')
      .refine(withoutZero, noZero)
      .optional()
      .openapi({ description: 'An absolute path on the machine of the server.' }),
    env: z
      .record(
        z.string().regex(/^[^=\0]{1,1000}$/),
        z
          .string()
          .max(128 * 1024)
          .refine(withoutZero, noZero),
      )
      .optional()
      .openapi({ description: 'Added to the environment of the server.' }),
    environmentChanges: z.array(environmentChange).max(100).optional().openapi({
      description: 'What was changed in "env" before it was sent; shown with the job.',
    }),
    name: z.string().min(1).max(200).optional(),
    batch: z.int().min(1).max(1_000_000_000).optional().openapi({
      description: 'Samples of one batch, for a command with {batch_size}.',
    }),
    estimateTimeoutSeconds: z.number().min(0).max(3600).optional().openapi({
      description:
        'How long the trace of a Python program may take that states no memory (120); 0 leaves it out.',
    }),
    elastic: z
      .strictObject({
        slowdown: z.number().min(1).max(1000).optional().openapi({
          description: 'Its step may take so many times as long; 1.5 where it is left out.',
        }),
        leastBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional().openapi({
          description: 'What it can do with; left out, by the prediction of its estimate.',
        }),
      })
      .optional()
      .openapi({
        description: 'It may start with less than it needs, and its limit may move while it runs.',
      }),
    submission: z.string().min(1).max(200).optional().openapi({
      description: 'Sent again with the same word, it answers the job that is there.',
    }),
  })
  .openapi('JobRequest');

const reservation = z.object({
  devices: z.array(z.string()),
  bytes: bytes.openapi({ description: 'On each of the devices.' }),
  basis: z.enum(bases),
  simulated: z
    .boolean()
    .optional()
    .openapi({ description: 'The devices are not there, but simulated.' }),
});

const climbedRungs = z.array(
  z.object({ rung: z.enum([...rungs, 'grow-back']), why: z.string(), atSeconds: seconds }),
);

const progressSchema = z
  .array(
    z.object({
      atSeconds: z.number(),
      step: z.number(),
      stepsPerSecond: known(z.number()).optional(),
      samplesPerSecond: known(z.number()),
      loss: known(z.number()),
      microbatch: known(z.number()),
      peakBytes: known(bytes),
    }),
  )
  .optional()
  .openapi({ description: 'Some of the steps of a program that tells of them, in order.' });

const attempt = z
  .object({
    number: z.int(),
    settings: settingsSchema,
    command: z.array(z.string()),
    startedAt: moment,
    endedAt: moment,
    exitCode: known(z.number()),
    outOfMemory: z
      .object({
        kind: z.string(),
        askedBytes: known(bytes),
        freeBytes: known(bytes),
        totalBytes: known(bytes),
        message: z.string(),
      })
      .nullable(),
    rungs: climbedRungs,
    peakBytes: known(bytes),
    source: provenance,
    peakFrom: z.enum(['sdk', 'nvml', 'cgroup', 'process', 'unknown']),
    limit: z.object({
      bytes: z.union([bytes, z.literal('unknown'), z.literal('none')]),
      by: z.enum(['cgroup-v1', 'cgroup-v2', 'address-space', 'sdk', 'none']),
      why: z.string(),
    }),
    snapshot: z.object({ file: z.string(), findings: z.array(z.string()) }).nullable(),
    progress: progressSchema,
    spill: z
      .object({
        bytesOut: bytes,
        bytesBack: bytes,
        recomputedSeconds: z.number(),
        stallSeconds: z.number(),
        aside: z.string().optional(),
      })
      .optional()
      .openapi({
        description:
          'What moved to the host and back, and was computed again, to stay in the limit.',
      }),
    buffers: z
      .object({
        items: z.number(),
        hits: z.number(),
        misses: z.number(),
        evictions: z.number(),
        memoryBytes: bytes,
        fileBytes: bytes,
        rawBytes: bytes,
        hitRate: known(z.number()),
        compressionRatio: known(z.number()),
      })
      .optional()
      .openapi({ description: 'Buffer stores of the program, all together, as last reported.' }),
  })
  .openapi('Attempt', { description: 'One try of a command.' });

const need = z.object({
  bytes,
  basis: z.enum(bases).openapi({
    description: '"unknown": nothing is known of it, and it gets a whole device.',
  }),
  why: z.string(),
  whyDetails: needReasonSchema.nullable(),
  estimatedBytes: known(bytes),
  runs: z.int().openapi({ description: 'Runs of the same workload that it rests on.' }),
});

export const waitingSchema = z.object({
  position: z
    .int()
    .openapi({ description: '1 is next, of those that wait for GPUs, or for the host.' }),
  why: z.string(),
  whyDetails: waitingReasonSchema,
  order: z.string().openapi({ description: 'Why the job before it is there; empty of the first.' }),
  orderDetails: orderReasonSchema.nullable(),
  expectedStartAt: known(moment),
  expiresAt: moment.nullable(),
});

const degraded = z
  .object({
    ...degradedSettings,
    why: z.string(),
    whyDetails: degradedReasonSchema.nullable(),
  })
  .openapi({ description: 'What was changed so that it fits; null where nothing was.' });

const summaryFields = {
  id: z.string(),
  name: z.string(),
  owner: z.string().openapi({ description: 'Who submitted it.' }),
  state: z.enum(jobStates),
  reason: z.string().openapi({ description: 'Why it is in that state; for people.' }),
  reasonDetails: jobReasonSchema.nullable(),
  command: z.array(z.string()),
  priority: z.number(),
  submittedAt: moment,
  startedAt: moment.nullable(),
  endedAt: moment.nullable(),
  gpus: z.number(),
  reservation: reservation.nullable(),
  attempts: z.array(attempt),
  need,
  waiting: waitingSchema.nullable(),
  degraded: degraded.nullable(),
};

/** As `JobSummary` has it. */
export const jobSummarySchema = z.object(summaryFields).openapi('JobSummary');

/** As `JobView` has it. */
export const jobSchema = z
  .object({
    ...version,
    ...summaryFields,
    cwd: z.string(),
    usedBytes: known(bytes),
    currentAttempt: z
      .object({
        number: z.int(),
        settings: settingsSchema,
        startedAt: moment,
        rungs: climbedRungs,
        progress: progressSchema,
      })
      .nullable()
      .openapi({ description: 'The attempt that goes on; "attempts" has those that ended.' }),
    elastic: z
      .object({
        slowdown: z.number(),
        leastBytes: bytes.optional(),
        foundBytes: bytes.optional().openapi({
          description: 'With so much it may start; absent where nothing is predicted.',
        }),
      })
      .nullable(),
    limit: z
      .object({
        askedBytes: bytes,
        state: z.enum(['asked', 'set', 'kept']),
        why: z.string(),
      })
      .nullable()
      .openapi({ description: 'The limit that it was asked to keep since it runs.' }),
    environmentChanges: z.array(environmentChange).openapi({
      description: 'Variables that submit or serve changed for this job.',
    }),
    log: z.object({ bytes }),
  })
  .openapi('Job');

/** The body of `POST /jobs/:id/limit`. */
export const jobLimitSchema = z
  .strictObject({
    memoryBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).openapi({
      description: 'What it may take of each of its devices, the CUDA context included.',
    }),
  })
  .openapi('JobLimit');

export const countsSchema = z.object({
  waiting: z.int(),
  running: z.int(),
  succeeded: z.int(),
  failed: z.int(),
  cancelled: z.int(),
  refused: z.int(),
  expired: z.int(),
});

export const jobListSchema = z
  .object({
    ...version,
    jobs: z.array(jobSummarySchema),
    counts: countsSchema,
    lastEventId: z.int().openapi({
      description: 'The list holds all changes up to this one: GET /events?after= goes on from it.',
    }),
  })
  .openapi('JobList');

export const jobHistorySchema = z
  .object({ ...version, epochMs: z.array(epochMs), usedBytes: z.array(z.number().nullable()) })
  .openapi('JobHistory', { description: 'What a job held over time; null where it is unknown.' });

/** What a job was asked to be. */
export const submittedRequestSchema = z
  .object({ ...version, request: jobRequestSchema })
  .openapi('SubmittedRequest');
