import { z } from '@hono/zod-openapi';
import { documentVersion } from '../../files/document-version.js';
import { alertKinds, risks } from '../../watch/types.js';

/** A value, or the word `unknown` where it could not be read. */
export function known<Schema extends z.ZodType>(
  schema: Schema,
): z.ZodUnion<[Schema, z.ZodLiteral<'unknown'>]> {
  return z.union([schema, z.literal('unknown')]);
}

export const bytes = z.int().min(0).openapi({ description: 'Bytes.' });
export const seconds = z.number();
/** Of a moment, for people and programs: 2026-01-01T00:00:00.000Z. */
export const moment = z.iso.datetime();
export const epochMs = z.number().openapi({ description: 'Milliseconds since 1970.' });
export const provenance = z.enum(['measured', 'simulated', 'estimated']);

/** Of every whole document. */
export const version = {
  schema: z.literal(documentVersion).openapi({
    description: 'The version of the document; it rises when a field changes its meaning.',
  }),
};

export const errorSchema = z
  .object({
    ...version,
    error: z.object({
      code: z.string().openapi({ description: 'Stable; for programs.' }),
      fact: z.string().openapi({ description: 'What is the matter; for people.' }),
      next: z.string().openapi({ description: 'What to do about it; for people.' }),
      field: z.string().optional().openapi({
        description: 'The field of the request that it is about, such as workload.batch.',
      }),
    }),
  })
  .openapi('Error', {
    example: {
      schema: documentVersion,
      error: {
        code: 'unknown-job',
        fact: 'There is no job "7".',
        next: 'Run "plimsoll jobs" to see them.',
      },
    },
  });

const untilFull = z.union([seconds, z.literal('unknown'), z.literal('never')]);

const forecast = z
  .object({
    risk: known(z.enum(risks)),
    etaSeconds: untilFull,
    lowSeconds: untilFull,
    highSeconds: untilFull,
    confidence: z.number(),
    bytesPerSecond: known(z.number()),
    reason: z.string(),
    recommendations: z.array(z.string()),
    provenance: z.literal('estimated'),
  })
  .openapi('Forecast', { description: 'When the limit will be reached.' });

export const alertSchema = z
  .object({
    kind: z.enum(alertKinds),
    state: z.enum(['raised', 'cleared']),
    severity: z.enum(['warning', 'critical']),
    deviceId: z.string(),
    pid: z.number().optional(),
    atSeconds: seconds,
    epochMs,
    message: z.string(),
    recommendations: z.array(z.string()),
    provenance: z.enum(['measured', 'simulated']),
  })
  .openapi('Alert');

/** As `DeviceView` has it. */
export const deviceSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    source: z.string(),
    provenance,
    totalBytes: known(bytes),
    usedBytes: known(bytes),
    freeBytes: known(bytes),
    processes: known(
      z.array(z.object({ pid: z.number(), name: known(z.string()), usedBytes: known(bytes) })),
    ),
    loadLineBytes: bytes.openapi({ description: 'Reservations may fill it up to here.' }),
    otherProcessesBytes: known(bytes).openapi({
      description: 'Used by processes that are not jobs.',
    }),
    reservedBytes: bytes,
    releasingBytes: bytes.openapi({
      description: 'Reserved by jobs that ended, until the device reports the memory free.',
    }),
    availableBytes: bytes.openapi({ description: 'Available to jobs now.' }),
    reservations: z.array(
      z.object({
        jobId: z.string(),
        name: z.string(),
        bytes,
        usedBytes: known(bytes),
        isReleasing: z.boolean(),
      }),
    ),
    forecast,
    alerts: z.array(alertSchema),
    takesJobs: z.boolean(),
  })
  .openapi('Device');

export const deviceListSchema = z
  .object({ ...version, devices: z.array(deviceSchema) })
  .openapi('DeviceList');

/** As `DeviceHistory` has it. */
export const deviceHistorySchema = z
  .object({
    ...version,
    id: z.string(),
    epochMs: z.array(epochMs),
    usedMax: z.array(z.number().nullable()),
    usedMin: z.array(z.number().nullable()),
    alerts: z.array(alertSchema),
  })
  .openapi('DeviceHistory', { description: 'Use over time, thinned so that peaks stay.' });
