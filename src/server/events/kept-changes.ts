import type { Daemon, DaemonEvent } from '../../jobs/daemon/types.js';
import { hasOutput, withoutOutput } from '../access/permissions.js';
import { serverLimits } from '../http/limits.js';
import { type EventBytes, encodeEvent } from './event-bytes.js';

/** What an empty answer takes. */
const smallBytes = 200;

/** A change of a job, encoded. */
export interface Change {
  readonly id: number;
  readonly owner: string;
  readonly bytes: EventBytes;
  /** Without what only its owner may see; the same bytes where there is nothing such. */
  readonly forOthers: EventBytes;
}

/** What to send to one that has all changes up to an id. */
export interface Missed {
  readonly changes: readonly Change[];
  /** It then has all up to here; `last` is the newest there is. */
  readonly upTo: number;
  readonly last: number;
}

/**
 * The changes that the daemon keeps, for clients that come back. When a server restarts, all its
 * clients come back at once and ask for the same: the daemon is asked once, each change is encoded
 * once.
 */
export class KeptChanges {
  readonly #daemon: Pick<Daemon, 'eventsAfter'>;
  readonly #maxBytes: number;
  readonly #encoded = new Map<number, EventBytes>();
  readonly #missed = new Map<number, Missed>();
  #bytes = 0;
  #missedBytes = 0;

  constructor(daemon: Pick<Daemon, 'eventsAfter'>, maxBytes: number) {
    this.#daemon = daemon;
    this.#maxBytes = maxBytes;
  }

  /** `first` is the oldest that is kept. */
  range(): { readonly first: number; readonly last: number } {
    const { first, last } = this.#daemon.eventsAfter(Number.MAX_SAFE_INTEGER, 1);
    return { first, last };
  }

  after(id: number): Missed {
    const known = this.#missed.get(id);
    if (known !== undefined) return known;
    const most = serverLimits.catchUpEvents;
    const { events, last } = this.#daemon.eventsAfter(id, most);
    const changes = events.flatMap((event) => (event.type === 'job' ? [this.#change(event)] : []));
    // Changes of jobs that were forgotten are left out. However many that were, those looked at reach
    // so far: an id stands for one change.
    const upTo = changes.at(-1)?.id ?? Math.min(last, id + most);
    const missed = { changes, upTo, last };
    this.#missedBytes += changes.reduce((sum, { bytes }) => sum + bytes.length, smallBytes);
    if (this.#missedBytes <= this.#maxBytes) this.#missed.set(id, missed);
    return missed;
  }

  /** For clients who may not see what comes out of the job. */
  encodeForOthers(event: DaemonEvent): EventBytes {
    if (event.type !== 'job' || !hasOutput(event.job)) return this.encode(event);
    return encodeEvent({ ...event, job: withoutOutput(event.job) });
  }

  #change(event: Extract<DaemonEvent, { type: 'job' }>): Change {
    const [bytes, forOthers] = [this.encode(event), this.encodeForOthers(event)];
    return { id: event.id, owner: event.job.owner, bytes, forOthers };
  }

  /** Something changed: what was missed is more now. */
  forgetMissed(): void {
    this.#missed.clear();
    this.#missedBytes = 0;
  }

  encode(event: DaemonEvent): EventBytes {
    if (event.type !== 'job') return encodeEvent(event);
    const known = this.#encoded.get(event.id);
    if (known !== undefined) return known;
    const made = encodeEvent(event);
    this.#encoded.set(event.id, made);
    this.#bytes += made.length;
    for (const [id, { length }] of this.#encoded) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#encoded.delete(id);
      this.#bytes -= length;
    }
    return made;
  }
}
