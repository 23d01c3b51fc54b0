import * as z from 'zod';
import { alertKinds } from '../watch/types.js';
import { limits } from './limits.js';
import type { SchemaNode } from './schema-node.js';

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
  alerts: alerts.optional().describe('When to warn, and how.'),
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
