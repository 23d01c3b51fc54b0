import type { DaemonEvent } from '../../jobs/daemon/types.js';
import { serverLimits } from '../http/limits.js';

/** An event as it goes over the wire: made once, sent to all. */
export type EventBytes = Buffer<ArrayBuffer>;

/** JSON has no line breaks of its own, so one `data:` line holds it. */
export function encodeEvent(event: DaemonEvent): EventBytes {
  const id = event.type === 'job' ? `id: ${event.id}\n` : '';
  return Buffer.from(`event: ${event.type}\n${id}data: ${JSON.stringify(event)}\n\n`);
}

/** Older changes are no longer kept: fetch all anew; what follows goes on from `last`. */
export function encodeReset(last: number): EventBytes {
  return Buffer.from(`event: reset\nid: ${last}\ndata: {"type":"reset","last":${last}}\n\n`);
}

/**
 * The first words. An id without data moves where a client resumes and is no event for it: one that
 * loses us before any job changed still misses nothing.
 */
export function encodeGreeting(last: number): EventBytes {
  return Buffer.from(`retry: ${serverLimits.retryMilliseconds}\nid: ${last}\n\n`);
}

/** A comment: clients pass over it, and the way stays open. */
export const heartbeat: EventBytes = Buffer.from(':\n\n');
