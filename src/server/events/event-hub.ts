import type { Daemon, DaemonEvent } from '../../jobs/daemon/types.js';
import type { Clock } from '../../time/clock.js';
import { hasOutput, withoutOutput } from '../access/permissions.js';
import { tooManyStreams } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';

/** Whom a stream is for. */
export interface StreamClient {
  /** Asked again and again: once it says no, the stream ends. */
  readonly mayStay: () => boolean;
  /** Whether it may see what comes out of jobs of this owner. */
  readonly owns: (owner: string) => boolean;
}

const anybody: StreamClient = { mayStay: () => true, owns: () => true };

interface Listener extends StreamClient {
  readonly sink: StreamSink;
}

/** All clients of `GET /events`: each event is encoded once, however many listen. */
export class EventHub {
  readonly #kept: KeptChanges;
  readonly #streams = new Map<EventStream, Listener>();
  readonly #closed = new AbortController();
  readonly #stopListening: () => void;
  #latestDevices: DaemonEvent | undefined;

  constructor(daemon: Daemon, clock: Clock) {
    this.#kept = new KeptChanges(daemon, serverLimits.keptEventBytes);
    this.#stopListening = daemon.listen((event) => this.#hear(event));
    void this.#beat(clock);
  }

  get count(): number {
    return this.#streams.size;
  }

  /** Throws where there are too many, or the daemon cannot tell; to be asked before the client is answered. */
  checkRoom(): void {
    if (this.#streams.size >= serverLimits.eventStreams) throw tooManyStreams();
    this.#kept.range();
  }

  open(sink: StreamSink, after: number | undefined, client = anybody): EventStream {
    const stream = new EventStream(this.#kept, sink, client.owns);
    this.#streams.set(stream, { sink, ...client });
    stream.open(after);
    // The page need not wait for the next reading.
    const latest = this.#latestDevices;
    if (latest) stream.hear(latest, this.#kept.encode(latest));
    return stream;
  }

  leave(stream: EventStream): void {
    this.#streams.delete(stream);
  }

  /** Ends the streams of those who may no longer listen. */
  dismiss(): void {
    for (const [stream, { sink, mayStay }] of this.#streams) {
      if (mayStay()) continue;
      this.#streams.delete(stream);
      sink.end();
    }
  }

  /** Ends all streams; clients come back by themselves and name what they have. */
  close(): void {
    this.#closed.abort();
    this.#stopListening();
    for (const { sink } of this.#streams.values()) sink.end();
    this.#streams.clear();
  }

  #hear(event: DaemonEvent): void {
    if (event.type === 'devices') this.#latestDevices = event;
    if (event.type === 'job') this.#kept.forgetMissed();
    if (this.#streams.size === 0) return;
    const bytes = this.#kept.encode(event);
    const forOthers = this.#kept.encodeForOthers(event);
    for (const stream of this.#streams.keys()) stream.hear(event, bytes, forOthers);
  }

  async #beat(clock: Clock): Promise<void> {
    const { signal } = this.#closed;
    for (let at = clock.seconds(); !signal.aborted; ) {
      at = Math.max(at, clock.seconds()) + serverLimits.heartbeatSeconds;
      await clock.waitUntil(at, signal);
      if (signal.aborted) return;
      // A session may have come to its end by itself.
      this.dismiss();
      for (const stream of this.#streams.keys()) stream.beat();
    }
  }
}

/** One client of `GET /events`, as far as it can be cut off. */
interface StreamSink extends Sink {
  /** The client is let go at once; it comes back by itself. */
  cut(): void;
  /** Ends the stream after all bytes sent so far. */
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

/** Receives bytes: a response that says when it is full, and when it has room again. */
interface Sink {
  /** False: take no more until `drained` is called. */
  write(bytes: EventBytes): boolean;
}

/** Of these only the latest counts: a slow client loses the ones between. */
export type LatestKind = 'devices' | 'queue';

/**
 * The queue of one client. Changes of jobs wait in order and all arrive, or the client is
 * disconnected; of readings only the latest of each kind waits.
 */
export class Outbox {
  readonly #sink: Sink;
  readonly #maxBytes: number;
  readonly #waiting: EventBytes[] = [];
  readonly #latest = new Map<LatestKind, EventBytes>();
  #waitingBytes = 0;
  #isFull = false;

  constructor(sink: Sink, maxBytes: number) {
    this.#sink = sink;
    this.#maxBytes = maxBytes;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** False: too much has piled up, the client must go. */
  send(bytes: EventBytes): boolean {
    if (!this.#isFull) {
      this.#write(bytes);
      return true;
    }
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    return this.#waitingBytes <= this.#maxBytes;
  }

  sendLatest(kind: LatestKind, bytes: EventBytes): void {
    if (this.#isFull) this.#latest.set(kind, bytes);
    else this.#write(bytes);
  }

  drained(): void {
    this.#isFull = false;
    let sent = 0;
    for (const bytes of this.#waiting) {
      if (this.#isFull) break;
      this.#write(bytes);
      this.#waitingBytes -= bytes.length;
      sent += 1;
    }
    this.#waiting.splice(0, sent);
    for (const [kind, bytes] of this.#latest) {
      if (this.#isFull) return;
      this.#latest.delete(kind);
      this.#write(bytes);
    }
  }

  #write(bytes: EventBytes): void {
    if (!this.#sink.write(bytes)) this.#isFull = true;
  }
}

/** Bytes of an empty answer. */
const smallBytes = 200;

/** A change of a job, encoded. */
interface Change {
  readonly id: number;
  readonly owner: string;
  readonly bytes: EventBytes;
  /** Without what only its owner may see; the same bytes where there is nothing such. */
  readonly forOthers: EventBytes;
}

/** The events to send to a client that has all changes up to an id. */
interface Missed {
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

/** An event as it goes over the wire: made once, sent to all. */
export type EventBytes = Buffer<ArrayBuffer>;

/**
 * Encodes an event. JSON has no line breaks of its own, so one `data:` line holds it.
 *
 * @public The benchmark `streams` sends the same bytes.
 */
export function encodeEvent(event: DaemonEvent): EventBytes {
  const id = event.type === 'job' ? `id: ${event.id}\n` : '';
  return Buffer.from(`event: ${event.type}\n${id}data: ${JSON.stringify(event)}\n\n`);
}

/** Older changes are no longer kept: fetch all anew; what follows goes on from `last`. */
function encodeReset(last: number): EventBytes {
  return Buffer.from(`event: reset\nid: ${last}\ndata: {"type":"reset","last":${last}}\n\n`);
}

/**
 * The first words. An id without data moves where a client resumes and is no event for it: one that
 * loses us before any job changed still misses nothing.
 */
function encodeGreeting(last: number): EventBytes {
  return Buffer.from(`retry: ${serverLimits.retryMilliseconds}\nid: ${last}\n\n`);
}

/** A comment: clients pass over it, and the way stays open. */
const heartbeat: EventBytes = Buffer.from(':\n\n');
