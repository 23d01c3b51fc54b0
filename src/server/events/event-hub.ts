import type { Daemon, DaemonEvent } from '../../jobs/daemon/types.js';
import type { Clock } from '../../time/clock.js';
import { tooManyStreams } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';
import { EventStream, type StreamSink } from './event-stream.js';
import { KeptChanges } from './kept-changes.js';

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
