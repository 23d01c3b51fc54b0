import type { DaemonEvent } from '../../jobs/daemon/types.js';
import { serverLimits } from '../http/limits.js';
import { type EventBytes, encodeGreeting, encodeReset, heartbeat } from './event-bytes.js';
import type { KeptChanges } from './kept-changes.js';
import { Outbox, type Sink } from './outbox.js';

/** One client of `GET /events`, as far as it can be cut off. */
export interface StreamSink extends Sink {
  /** The client is let go at once; it comes back by itself. */
  cut(): void;
  /** What it was sent still arrives. */
  end(): void;
}

/**
 * One client: first it catches up with the changes it missed, then it hears what happens. A change
 * reaches it once: the ids say what it has. All of it is synchronous, so nothing happens between the
 * last look at the kept changes and going live.
 */
export class EventStream {
  readonly #kept: KeptChanges;
  readonly #sink: StreamSink;
  readonly #outbox: Outbox;
  readonly #owns: (owner: string) => boolean;
  /** The last change that it has, or that waits in its outbox. */
  #lastId = 0;
  #isLive = false;
  #missedHeartbeats = 0;

  /** `owns` says whether it may see what comes out of jobs of an owner. */
  constructor(kept: KeptChanges, sink: StreamSink, owns: (owner: string) => boolean = () => true) {
    this.#owns = owns;
    this.#kept = kept;
    this.#sink = sink;
    this.#outbox = new Outbox(sink, serverLimits.streamBacklogBytes);
  }

  /** `after` is the last change that the client has; undefined where it wants only what comes. */
  open(after: number | undefined): void {
    const { first, last } = this.#kept.range();
    const isKept = after !== undefined && after <= last && after + 1 >= first;
    this.#lastId = isKept ? after : last;
    this.#outbox.send(encodeGreeting(this.#lastId));
    // Also for one that knows more than there is: the jobs it knows are not those of this store.
    if (after !== undefined && !isKept) this.#outbox.send(encodeReset(last));
    this.#catchUp();
  }

  /** `bytes` is the event encoded, the same for all streams; `forOthers` for those who do not own it. */
  hear(event: DaemonEvent, bytes: EventBytes, forOthers = bytes): void {
    if (event.type === 'devices' || event.type === 'queue') {
      this.#outbox.sendLatest(event.type, bytes);
      return;
    }
    if (event.type === 'job') {
      // While it catches up it will find this one among the kept ones.
      if (!this.#isLive || event.id <= this.#lastId) return;
      this.#lastId = event.id;
    }
    const isOwn = event.type !== 'job' || this.#owns(event.job.owner);
    if (!this.#outbox.send(isOwn ? bytes : forOthers)) this.#sink.cut();
  }

  drained(): void {
    this.#missedHeartbeats = 0;
    this.#outbox.drained();
    if (!this.#isLive) this.#catchUp();
  }

  beat(): void {
    if (!this.#outbox.isFull) {
      this.#outbox.send(heartbeat);
      return;
    }
    this.#missedHeartbeats += 1;
    if (this.#missedHeartbeats > serverLimits.missedHeartbeats) this.#sink.cut();
  }

  /** As much as the client takes; goes on when it has taken that. */
  #catchUp(): void {
    while (!this.#outbox.isFull) {
      const { changes, upTo, last } = this.#kept.after(this.#lastId);
      if (this.#lastId >= last) {
        this.#isLive = true;
        return;
      }
      for (const { id, owner, bytes, forOthers } of changes) {
        // The rest stays with the daemon until the client has taken these.
        if (this.#outbox.isFull) return;
        this.#outbox.send(this.#owns(owner) ? bytes : forOthers);
        this.#lastId = id;
      }
      this.#lastId = upTo;
    }
  }
}
