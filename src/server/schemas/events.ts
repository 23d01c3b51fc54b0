import { z } from '@hono/zod-openapi';
import { epochMs } from './common.js';
import { alertSchema, deviceSchema } from './devices.js';
import { countsSchema, jobSummarySchema, waitingSchema } from './jobs.js';

/** As `DaemonEvent` has it, and `reset`. */
export const eventSchema = z
  .union([
    z.object({
      type: z.literal('job'),
      id: z.int(),
      job: jobSummarySchema,
      what: z.string(),
    }),
    z.object({ type: z.literal('devices'), epochMs, devices: z.array(deviceSchema) }),
    z.object({ type: z.literal('alert'), alert: alertSchema }),
    z.object({
      type: z.literal('queue'),
      waiting: z.array(waitingSchema.extend({ id: z.string() })),
      counts: countsSchema,
    }),
    z.object({ type: z.literal('reset'), last: z.int() }),
  ])
  .openapi('Event', {
    description: 'The data of one event; its type is the name of the event as well.',
  });
