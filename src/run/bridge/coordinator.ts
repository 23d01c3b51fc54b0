import { decideSpill } from '../../estimate/spill-decision.js';
import type { Clock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import type { StepDecision } from '../ladder/in-process.js';
import type { AttemptBuffers, MeasuredSize } from '../types.js';
import type { GroupEvents } from './group.js';
import {
  type BufferFigures,
  type FromSdk,
  type Hello,
  type OutOfMemoryMessage,
  sumBuffers,
  type ToSdk,
} from './messages.js';
import { Party, type Peer } from './party.js';
import { Spilling } from './spilling.js';

/** A rank asks about the round it is in; decisions of older ones are forgotten. */
const keptDecisions = 16;
/** Processes with buffer stores; those of a program that starts more are left out. */
const maxStores = 1024;

/**
 * Answers what the SDK asks. Ranks of one program (world above 1) are one party and hear the same;
 * any other process is a party of its own.
 */
export class Coordinator {
  readonly #clock: Clock;
  readonly #events: GroupEvents;
  readonly #parties = new Map<Peer, Party>();
  #together: Party | undefined;
  #steps = 0;
  /** Of processes that have left: there may be any number of them. */
  #pastPeakBytes = 0;
  #snapshot: string | null = null;
  #hasSaved = false;
  #measured: readonly MeasuredSize[] = [];
  /** Also of processes that have left. */
  readonly #buffers = new Map<Peer, BufferFigures>();
  readonly #spilling: Spilling;

  constructor(
    clock: Clock,
    events: GroupEvents,
    spilling = new Spilling(undefined, () => undefined),
  ) {
    this.#clock = clock;
    this.#events = events;
    this.#spilling = spilling;
  }

  /** The most that any of its processes held. */
  get peakBytes(): Known<number> {
    const peaks = [...this.#parties.values()].map(({ peakBytes }) => peakBytes).filter(isKnown);
    const peak = Math.max(this.#pastPeakBytes, ...peaks);
    return peak === 0 ? 'unknown' : peak;
  }

  get baseBytes(): Known<number> {
    const bases = [...this.#parties.values()].map(({ baseBytes }) => baseBytes).filter(isKnown);
    return bases.length === 0 ? 'unknown' : Math.max(...bases);
  }

  /** The file that was written when memory last ran out. */
  get snapshot(): string | null {
    return this.#snapshot;
  }

  /** Steps that went well; those under an earlier supervisor among them. */
  get steps(): number {
    return this.#steps;
  }

  /** What its buffer stores did and hold; undefined where it has none. */
  get buffers(): AttemptBuffers | undefined {
    return sumBuffers([...this.#buffers.values()]);
  }

  /** Whether it wrote a checkpoint of its own accord: a fresh process goes on from there. */
  get hasSaved(): boolean {
    return this.#hasSaved;
  }

  /** What a process whose out-of-memory was not caught measured of smaller sizes before it ended. */
  get measured(): readonly MeasuredSize[] {
    return this.#measured;
  }

  take(peer: Peer, message: FromSdk): void {
    if (message.type === 'hello') {
      this.#join(peer, message);
      this.#spilling.join(peer, message);
      return;
    }
    const party = this.#parties.get(peer);
    if (party === undefined) return;
    switch (message.type) {
      case 'figures':
        party.figures(peer, message);
        if (message.buffers !== undefined) this.#keepBuffers(peer, message.buffers);
        break;
      case 'step': {
        this.#steps++;
        this.#events.onStep?.();
        party.sawPeak(message.peakBytes);
        if (!party.counts(peer, message.who)) break;
        this.#events.onProgress?.(message);
        const grown = party.work(message.who).step(message, party.memory());
        if (grown !== undefined) party.broadcast({ type: 'grow', who: message.who, ...grown });
        break;
      }
      case 'loop':
        this.#steps++;
        this.#events.onStep?.();
        party.sawPeak(message.peakBytes);
        this.#events.onProgress?.(message);
        break;
      case 'saved':
        this.#hasSaved = true;
        break;
      case 'forecast': {
        const decision = party.work(message.who).ahead(message, party.memory(peer));
        peer.send(decideMessage(decision, message.id, null));
        break;
      }
      case 'oom':
        this.#outOfMemory(peer, party, message);
        break;
      case 'measured':
        this.#measured = message.sizes;
        break;
      case 'barrier': {
        const verdict = party.rounds.verdictOf(message.round);
        if (verdict === undefined) {
          party.rounds.say(message.round, message.rank, message.ok, party.world);
        } else peer.send(party.verdict(message.round, verdict));
        break;
      }
      case 'climbed':
        this.#events.onRung(message.rung, message.why, message.secondsAgo);
        break;
      case 'spill':
        this.#spilling.figuresOf(peer, message);
        break;
      case 'blocks': {
        const { id, measured } = message;
        const stated = isKnown(message.limitBytes) ? message.limitBytes : undefined;
        const own = this.#spilling.limitBytes;
        const limitBytes = isKnown(own) ? own : stated;
        if (limitBytes === undefined) break;
        peer.send({ type: 'spill-plan', id, ...decideSpill(measured, limitBytes) });
        break;
      }
      case 'limit-set':
        this.#spilling.limitSet(peer, message);
        break;
      case 'bye':
        this.leave(peer);
        break;
    }
  }

  leave(peer: Peer): void {
    const party = this.#parties.get(peer);
    if (party === undefined) return;
    this.#parties.delete(peer);
    party.leave(peer);
    this.#spilling.leave(peer);
    if (isKnown(party.peakBytes)) {
      this.#pastPeakBytes = Math.max(this.#pastPeakBytes, party.peakBytes);
    }
  }

  #keepBuffers(peer: Peer, figures: BufferFigures): void {
    if (this.#buffers.has(peer) || this.#buffers.size < maxStores) {
      this.#buffers.set(peer, figures);
    }
  }

  #join(peer: Peer, hello: Hello): void {
    // A loader's worker has the rank of the process that started it, and is none: it can do nothing.
    const isRank = hello.world > 1 && hello.hooks.length > 0;
    const before = this.#parties.get(peer);
    if (before === undefined) {
      this.#steps = Math.max(this.#steps, ...hello.works.map(({ steps }) => steps));
    }
    // Said again when a program declares more; what is known of it stays.
    const stays = before !== undefined && (before === this.#together) === isRank;
    if (!stays) this.leave(peer);
    const fresh = () => new Party(this.#clock, this.#events);
    const party = stays ? before : isRank ? (this.#together ??= fresh()) : fresh();
    party.join(peer, isRank ? hello : { ...hello, world: 1 });
    this.#parties.set(peer, party);
  }

  #outOfMemory(peer: Peer, party: Party, message: OutOfMemoryMessage): void {
    this.#snapshot = message.snapshot ?? this.#snapshot;
    party.sawPeak(message.peakBytes);
    const memory = party.memory(peer);
    const { kind, askedBytes, message: text } = message;
    const totalBytes = memory.limitBytes;
    const freeBytes = 'unknown';
    this.#events.onOutOfMemory({ kind, askedBytes, freeBytes, totalBytes, message: text });
    if (message.uncaught) return;
    const decide = () =>
      party.work(message.who).outOfMemory(message, memory, party.hooksOf(peer, message));
    // What one process does by itself is no round of the ranks.
    const isAlone = party.world === 1 || (message.round === undefined && message.who !== '');
    if (isAlone) {
      peer.send(decideMessage(decide(), message.id, message.round ?? null));
      return;
    }
    const round = message.round ?? party.rounds.current;
    const before = party.decided.get(round);
    const decision = before ?? decide();
    if (before === undefined) {
      party.decided.set(round, decision);
      const [oldest] = party.decided.keys();
      if (party.decided.size > keptDecisions && oldest !== undefined) party.decided.delete(oldest);
      for (const other of party.peers) {
        if (other !== peer) other.send(decideMessage(decision, null, round));
      }
    }
    peer.send(decideMessage(decision, message.id, round));
    party.rounds.fail(round, message.rank);
  }
}

function decideMessage(
  { action, microbatch, rung, why }: StepDecision,
  id: string | number | null,
  round: number | null,
): ToSdk {
  return { type: 'decide', id, round, action, microbatch, rung: rung ?? null, why };
}
