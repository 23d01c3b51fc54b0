import * as z from 'zod';
import { precisions } from '../estimate/types.js';
import { leastIntervalSeconds } from '../watch/sampling/intervals.js';
import { alertKinds } from '../watch/types.js';
import type { SchemaNode } from './schema-node.js';

/** What the configuration may hold; options of the command keep to the same limits. */
export const limits = {
  leastIntervalSeconds,
  /** A day: beyond it nothing is being watched, and a slip such as milliseconds is likelier. */
  maxIntervalSeconds: 86_400,
  /** A threshold of 0 would always be passed. */
  leastPercent: 1,
  /** More than any one machine has, with MIG instances. */
  deviceNames: 1024,
  /** Below what any system takes for one program. */
  commandWords: 256,
  /** The length that common servers and proxies still take. */
  urlLength: 2048,
  /** More kinds of cards than any one fleet has. */
  gpus: 256,
  gpuAliases: 32,
  /** The longest real name has some 40 letters. */
  gpuNameLength: 100,
  /** A pebibyte: no card comes near, and sums of a few stay exact. */
  gpuBytes: 2 ** 50,
  /** Python keeps thresholds in 32 bits. */
  gcCount: 2 ** 31 - 1,
  /** No training step takes a million samples on one machine. */
  batch: 2 ** 20,
  /** More than any model has layers. */
  segments: 10_000,
  /** More than any machine has cores. */
  workers: 1024,
  prefetch: 1024,
  /** Beyond this a list is no summary. */
  profiledLines: 1000,
  /** A configuration has some dozen keys; a larger file is another file by mistake. */
  fileBytes: 256 * 1024,
} as const;

// This file costs the start-up time of zod: import it lazily, and only when there is something
// to check.

const percent = z.number().min(limits.leastPercent).max(100);
const count = z.number().min(0);

const deliver = z.strictObject({
  log: z
    .union([z.boolean(), z.string().min(1)])
    .optional()
    .describe(
      'Whether each alert is a line on stderr, as it is when left out; a path appends it there, too.',
    ),
  command: z
    .array(z.string())
    .min(1)
    .max(limits.commandWords)
    .optional()
    .describe('Run this program with these arguments for each alert; no shell is involved.'),
  webhook: z
    .url({ protocol: /^https?$/ })
    .max(limits.urlLength)
    .optional()
    .describe('POST each alert as JSON to this address.'),
});

const risk = z.enum(['low', 'medium', 'high', 'critical']);

const enabled = z.strictObject(
  Object.fromEntries(
    alertKinds.map((kind) => [
      kind,
      z.boolean().optional().describe(`Whether alerts of the kind ${kind} are raised.`),
    ]),
  ),
);

const cost = z.number().min(0.001).max(1_000_000);

const alerts = z.strictObject({
  memoryWarningPercent: percent.optional().describe('Host memory use that is a warning.'),
  memoryCriticalPercent: percent.optional().describe('Host memory use that is critical.'),
  gpuWarningPercent: percent.optional().describe('GPU memory use that is a warning.'),
  gpuCriticalPercent: percent.optional().describe('GPU memory use that is critical.'),
  hysteresisPercent: z
    .number()
    .min(0)
    .max(50)
    .optional()
    .describe('How far use must fall below a threshold before its alert is cleared.'),
  leakBytesPerSecond: count.optional().describe('A slower leak raises no alert.'),
  leakGrownBytes: count.optional().describe('A leak that took less raises no alert.'),
  leakConfidence: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe('A leak that is less sure raises no alert.'),
  riskWarning: risk.optional().describe('The out-of-memory risk that is a warning.'),
  riskCritical: risk.optional().describe('The out-of-memory risk that is critical.'),
  clearAfterSeconds: count
    .optional()
    .describe('How long a leak or a risk must be away before its alert is cleared.'),
  repeatSeconds: count.optional().describe('The least time between two alerts of one kind.'),
  missedEndCost: cost
    .optional()
    .describe('How bad it is that a run ends without an alarm, beside falseAlarmCost.'),
  falseAlarmCost: cost
    .optional()
    .describe('How bad an alarm is in a run that would have gone on, beside missedEndCost.'),
  enabled: enabled.optional().describe('Which kinds of alerts are raised; all when left out.'),
  deliver: deliver.optional().describe('Where alerts go, besides the screen.'),
});

const bytes = z.number().int().min(0).max(limits.gpuBytes);

const gpu = z.strictObject({
  name: z.string().min(1).max(limits.gpuNameLength).describe('The name of the card.'),
  aliases: z
    .array(z.string().min(1).max(limits.gpuNameLength))
    .min(1)
    .max(limits.gpuAliases)
    .optional()
    .describe('Other names that --gpu takes for it.'),
  vendor: z.enum(['nvidia', 'amd']).optional().describe('Who makes it; nvidia when left out.'),
  capacityBytes: bytes.min(1).describe('All of its memory, as NVML reports it.'),
  capability: z
    .string()
    .regex(/^(\d{1,2}\.\d|gfx[0-9a-f]{3,4})$/)
    .optional()
    .describe('The compute capability, such as 9.0; for AMD the architecture, such as gfx942.'),
  contextBytes: bytes
    .optional()
    .describe('What a process takes beside what PyTorch reserves, as you measured it.'),
  workspaceBytes: bytes.optional().describe('The workspace of the BLAS library.'),
});

const interval = z.number().min(limits.leastIntervalSeconds).max(limits.maxIntervalSeconds);
const gcCount = z.number().int().min(1).max(limits.gcCount);
const samples = z.number().int().min(1).max(limits.batch);

const gc = z.strictObject({
  threshold0: gcCount
    .optional()
    .describe('How many more objects were made than freed when Python collects the young ones.'),
  threshold1: gcCount
    .optional()
    .describe('After how many such collections it collects the middle generation.'),
  threshold2: gcCount
    .optional()
    .describe('After how many of those it collects the old generation.'),
  intervalSeconds: interval
    .optional()
    .describe('Seconds between two collections of all generations, by the clock.'),
  abovePercent: percent
    .optional()
    .describe('Memory use above which garbage is collected and caches are given back.'),
});

const buffers = z.strictObject({
  limitBytes: bytes.min(1).optional().describe('What buffers may hold in memory.'),
  compress: z.boolean().optional().describe('Whether buffers are compressed where that saves.'),
});

const training = z.strictObject({
  batch: samples.optional().describe('Samples of a step: the batch to begin with.'),
  minBatch: samples.optional().describe('The smallest batch that may be chosen.'),
  maxBatch: samples.optional().describe('The largest batch that may be chosen.'),
  memoryPercent: percent.optional().describe('How much of a device a training may use.'),
  precision: z.enum(precisions).optional().describe('The precision of the arithmetic.'),
  checkpointing: z
    .boolean()
    .optional()
    .describe('Whether activations are computed again in backward instead of kept.'),
  segments: z
    .number()
    .int()
    .min(1)
    .max(limits.segments)
    .optional()
    .describe('Into how many segments checkpointing cuts a sequence of layers.'),
});

const loading = z.strictObject({
  workers: z
    .number()
    .int()
    .min(0)
    .max(limits.workers)
    .optional()
    .describe('Processes that load data; measured when left out.'),
  pinMemory: z.boolean().optional().describe('Whether batches lie in pinned memory.'),
  persistentWorkers: z
    .boolean()
    .optional()
    .describe('Whether workers stay from one epoch to the next.'),
  prefetch: z
    .number()
    .int()
    .min(1)
    .max(limits.prefetch)
    .optional()
    .describe('Batches that each worker prepares ahead.'),
});

const profiling = z.strictObject({
  enabled: z.boolean().optional().describe('Whether lines of Python that grow are looked for.'),
  top: z
    .number()
    .int()
    .min(1)
    .max(limits.profiledLines)
    .optional()
    .describe('How many of the lines that grow most are shown.'),
});

const slurm = z.strictObject({
  shardBytes: bytes.min(1).optional().describe('What one shard of a GPU stands for.'),
  gpuBytes: z
    .record(z.string().min(1).max(limits.gpuNameLength), bytes.min(1))
    .optional()
    .describe(
      'The memory of a GPU, by its type in Slurm or by a feature of its nodes; "gpu" where the site names neither.',
    ),
});

const ray = z.strictObject({
  address: z.string().min(1).optional().describe('The dashboard of the Ray cluster.'),
  gpuBytes: z
    .record(z.string().min(1).max(limits.gpuNameLength), bytes.min(1))
    .optional()
    .describe('The memory of a GPU, by its type in Ray; "gpu" where Ray names no type.'),
});

export const configSchema = z.strictObject({
  $schema: z.string().optional().describe('The address of this schema, for editors.'),
  intervalSeconds: z
    .number()
    .min(limits.leastIntervalSeconds)
    .max(limits.maxIntervalSeconds)
    .optional()
    .describe('Seconds between two samples of a device.'),
  processIntervalSeconds: z
    .number()
    .min(limits.leastIntervalSeconds)
    .max(limits.maxIntervalSeconds)
    .optional()
    .describe('Seconds between two readings of the processes of a device.'),
  devices: z
    .array(z.string().min(1))
    .min(1)
    .max(limits.deviceNames)
    .optional()
    .describe('The devices to watch, such as "gpu:0", "0" or "host"; all of them when left out.'),
  loadLinePercent: percent
    .optional()
    .describe('How full a device may be, in percent of its capacity: the load line.'),
  nvmlLibrary: z
    .string()
    .min(1)
    .optional()
    .describe('The path of libnvidia-ml.so.1, where it is not in a usual place.'),
  simulate: z
    .string()
    .min(1)
    .optional()
    .describe('A scenario or the path of a recorded trace to show instead of real devices.'),
  gpus: z
    .array(gpu)
    .min(1)
    .max(limits.gpus)
    .optional()
    .describe('Cards to plan for, besides those that plimsoll knows.'),
  slurm: slurm.optional().describe('What Slurm does not know of its GPUs.'),
  ray: ray.optional().describe('Where Ray is, and what it does not know of its GPUs.'),
  alerts: alerts.optional().describe('When to warn, and how.'),
  memoryLimitBytes: bytes
    .min(1)
    .optional()
    .describe('The most memory of a device that a job may take; all of it when left out.'),
  training: training.optional().describe('How to train.'),
  loading: loading.optional().describe('How data is loaded.'),
  gc: gc.optional().describe("Python's garbage collection in a session."),
  buffers: buffers.optional().describe('Buffers of a session.'),
  profiling: profiling.optional().describe('What a session records of Python.'),
});

export type Config = z.infer<typeof configSchema>;

/**
 * The JSON Schema of `plimsoll.config.json`; the package ships it as
 * `schema/plimsoll.config.schema.json`.
 *
 * @example
 * configJsonSchema().properties.intervalSeconds.minimum; // 0.01
 */
export function configJsonSchema(): SchemaNode {
  const { $schema, ...rest } = z.toJSONSchema(configSchema, { io: 'input' });
  return {
    $schema,
    title: 'plimsoll.config.json',
    description: 'Defaults for the command plimsoll, in the current folder or one above it.',
    ...rest,
  };
}
