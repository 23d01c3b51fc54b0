import { z } from '@hono/zod-openapi';
import { alertKinds, risks } from '../../watch/types.js';
import { bytes, epochMs, known, provenance, seconds, version } from './common.js';

const untilFull = z.union([seconds, z.literal('unknown'), z.literal('never')]);

const forecast = z
  .object({
    risk: known(z.enum(risks)),
    probability: known(
      z.object({ within15s: z.number(), within60s: z.number(), within5min: z.number() }),
    ).openapi({ description: 'That the limit is reached within the time: 0 to 1.' }),
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
