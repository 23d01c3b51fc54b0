import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from '@hono/zod-openapi';
import { Failure } from '../../failure.js';
import type { Identified } from '../access/identify.js';
import { ownsJob } from '../access/permissions.js';
import type { EventHub } from '../events/event-hub.js';
import { securityHeaders, whenAnswered } from '../http/exchanges.js';
import { alertSchema, deviceSchema, epochMs } from '../schemas/common.js';
import { countsSchema, jobSummarySchema, waitingSchema } from '../schemas/jobs.js';
import { type Answer, noBody, nothing, type Operation, operation } from './operation.js';

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

const streamHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  /** The end of the connection is the end of the answer: no framing around each event. */
  connection: 'close',
  /** Proxies such as nginx otherwise keep events until they have many. */
  'x-accel-buffering': 'no',
};

export function eventOperation(hub: EventHub): Operation {
  return operation({
    method: 'get',
    path: '/events',
    id: 'listen',
    tag: 'events',
    summary: 'What happens, as it happens (server-sent events)',
    description:
      'Events are named job, devices, alert, queue and reset; their data is JSON. Those named job have an id and are kept: a client that comes back with Last-Event-ID, or ?after=, misses none. Of devices and queue only the latest counts. After reset, older changes are no longer kept: fetch all anew.',
    params: nothing,
    query: z.strictObject({
      after: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().openapi({
        description: 'The last change that the client has, as lastEventId of GET /jobs.',
        example: 0,
      }),
    }),
    body: noBody,
    answers: {
      200: {
        description: 'The events; the answer ends when either side leaves, or the session does.',
        content: { 'text/event-stream': { schema: eventSchema } },
      },
    },
    errors: [503],
    handle({ query }, { incoming, outgoing, who }): Answer {
      const after = lastEventId(incoming.headers['last-event-id']) ?? query.after;
      if (incoming.method === 'HEAD') return { status: 200, body: null, headers: streamHeaders };
      hub.checkRoom();
      openStream(hub, { incoming, outgoing }, { after, who });
      return 'sent';
    },
  });
}

/** Returns the id that a returning browser sends; newer than the one in the address. */
function lastEventId(header: string | string[] | undefined): number | undefined {
  if (header === undefined || header === '') return undefined;
  if (typeof header === 'string' && /^\d{1,15}$/.test(header)) return Number(header);
  throw new Failure({
    kind: 'input',
    code: 'bad-event-id',
    fact: 'The header Last-Event-ID is not an event id of this server.',
    next: 'Send the id of an event of this server, or leave the header out.',
  });
}

function openStream(
  hub: EventHub,
  { incoming, outgoing }: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
  { after, who }: { readonly after: number | undefined; readonly who: Identified },
): void {
  outgoing.removeHeader('transfer-encoding');
  outgoing.writeHead(200, { ...securityHeaders, ...streamHeaders });
  outgoing.flushHeaders();
  outgoing.socket?.setNoDelay(true);
  const sink = {
    write: (bytes: Uint8Array) => outgoing.write(bytes),
    cut: () => outgoing.destroy(),
    end: () => outgoing.end(),
  };
  const stream = hub.open(sink, after, {
    mayStay: who.mayStay,
    owns: (owner) => ownsJob(who.identity, { owner }),
  });
  outgoing.on('drain', () => {
    try {
      stream.drained();
    } catch {
      // The daemon could not tell what was missed; the client asks again.
      outgoing.destroy();
    }
  });
  // A client that leaves is no error.
  outgoing.on('error', () => outgoing.destroy());
  whenAnswered(incoming, outgoing, () => hub.leave(stream));
}
