import type { Clock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Hook, StepDecision } from '../ladder/in-process.js';
import { type GroupEvents, RankGroup, type WorkMemory } from './group.js';
import type { Figures, Hello, OutOfMemoryMessage, ToSdk } from './messages.js';
import { maxWorks } from './read-message.js';

/** One process of the job that speaks to us. */
export interface Peer {
  send(message: ToSdk): void;
}

/** Processes that must hear the same: the ranks of one program, or one process by itself. */
export class Party {
  readonly rounds: Rounds;
  /** Decisions by round: every rank must hear the same. */
  readonly decided = new Map<number, StepDecision>();
  readonly #events: GroupEvents;
  readonly #peers = new Map<Peer, Hello>();
  /** Of each process its own: ranks, and cards, are not equally full. */
  readonly #figures = new Map<Peer, Figures>();
  readonly #bases = new Map<Peer, Known<number>>();
  readonly #works = new Map<string, { readonly group: RankGroup; reporter: Peer | undefined }>();
  #latest: string | undefined;
  #world = 1;
  #peakBytes: Known<number> = 'unknown';

  constructor(clock: Clock, events: GroupEvents) {
    this.#events = events;
    this.rounds = new Rounds(clock, (round, ok) => this.broadcast(this.verdict(round, ok)));
  }

  /** The most that any of its processes held. */
  get peakBytes(): Known<number> {
    return this.#peakBytes;
  }

  /** Bytes that the fullest of them holds before the first sample of a batch. */
  get baseBytes(): Known<number> {
    const known = [...this.#bases.values()].filter(isKnown);
    return known.length === 0 ? 'unknown' : Math.max(...known);
  }

  get world(): number {
    return this.#world;
  }

  get peers(): readonly Peer[] {
    return [...this.#peers.keys()];
  }

  join(peer: Peer, hello: Hello): void {
    this.#peers.set(peer, hello);
    this.#world = Math.max(this.#world, hello.world);
    this.sawPeak(hello.peakBytes);
    for (const work of hello.works) this.work(work.who).resume(work);
  }

  leave(peer: Peer): void {
    for (const map of [this.#peers, this.#figures, this.#bases]) map.delete(peer);
    for (const work of this.#works.values()) if (work.reporter === peer) work.reporter = undefined;
  }

  work(who: string): RankGroup {
    return this.#workOf(who).group;
  }

  /** Each rank makes the same steps: one of them counts for all. */
  counts(peer: Peer, who: string): boolean {
    const work = this.#workOf(who);
    work.reporter ??= peer;
    return work.reporter === peer;
  }

  figures(peer: Peer, figures: Figures): void {
    this.#figures.set(peer, figures);
    const { peakReservedBytes, peakAllocatedBytes, allocatedBytes, phase } = figures;
    this.sawPeak(isKnown(peakReservedBytes) ? peakReservedBytes : peakAllocatedBytes);
    if (phase === 'idle') this.#bases.set(peer, allocatedBytes);
  }

  sawPeak(bytes: Known<number>): void {
    if (!isKnown(bytes)) return;
    this.#peakBytes = Math.max(bytes, isKnown(this.#peakBytes) ? this.#peakBytes : 0);
  }

  hooksOf(peer: Peer, message: OutOfMemoryMessage): ReadonlySet<Hook> {
    return new Set(message.hooks ?? this.#peers.get(peer)?.hooks ?? []);
  }

  /** Of the process that ran out; without one, what all of them have: the least. */
  memory(peer?: Peer): WorkMemory {
    const figures = peer === undefined ? [...this.#figures.values()] : [this.#figures.get(peer)];
    const limits = [this.#events.limitBytes(), ...figures.map(reachable)].filter(isKnown);
    const [only] = figures.length === 1 ? figures : [];
    return {
      limitBytes: limits.length === 0 ? 'unknown' : Math.min(...limits),
      baseBytes: peer === undefined ? this.baseBytes : (this.#bases.get(peer) ?? 'unknown'),
      cachedBytes: cached(only),
    };
  }

  verdict(round: number, ok: boolean): ToSdk {
    const decided = this.decided.get(round)?.microbatch;
    const microbatch = decided ?? this.#works.get(this.#latest ?? '')?.group.microbatch ?? 0;
    return { type: 'verdict', round, ok, microbatch };
  }

  broadcast(message: ToSdk): void {
    for (const peer of this.#peers.keys()) peer.send(message);
  }

  #workOf(who: string): { readonly group: RankGroup; reporter: Peer | undefined } {
    const name = this.#works.has(who) || this.#works.size < maxWorks ? who : '';
    this.#latest = name;
    const known = this.#works.get(name);
    if (known !== undefined) return known;
    const fresh = { group: new RankGroup(this.#events), reporter: undefined };
    this.#works.set(name, fresh);
    return fresh;
  }
}

/** Returns the bytes of a process plus those its device can still give: a neighbour may have taken the rest. */
function reachable(figures: Figures | undefined): Known<number> {
  const { freeBytes = 'unknown', reservedBytes = 'unknown' } = figures ?? {};
  return isKnown(freeBytes) && isKnown(reservedBytes) ? freeBytes + reservedBytes : 'unknown';
}

function cached(figures: Figures | undefined): Known<number> {
  const { reservedBytes = 'unknown', allocatedBytes = 'unknown' } = figures ?? {};
  const areKnown = isKnown(reservedBytes) && isKnown(allocatedBytes);
  return areKnown ? Math.max(0, reservedBytes - allocatedBytes) : 'unknown';
}

/** A rank that hangs in a collective says nothing; so long the others wait for it. */
const verdictSeconds = 2;
/** A verdict may be asked for again by a rank that lost its connection; older ones are forgotten. */
const keptRounds = 16;

interface Round {
  readonly said: Map<number, boolean>;
  failedAt: number | undefined;
  verdict: boolean | undefined;
}

/**
 * Rounds of microbatches over several ranks: all of them hear the same verdict, when all have
 * spoken or two seconds after the first of them failed.
 */
class Rounds {
  readonly #clock: Clock;
  readonly #give: (round: number, ok: boolean) => void;
  readonly #rounds = new Map<number, Round>();
  #latest = 0;

  constructor(clock: Clock, give: (round: number, ok: boolean) => void) {
    this.#clock = clock;
    this.#give = give;
  }

  /** The round that is going on. */
  get current(): number {
    return this.#latest;
  }

  /** Whether a round was decided, and how. */
  verdictOf(round: number): boolean | undefined {
    return this.#rounds.get(round)?.verdict;
  }

  say(number: number, rank: number, ok: boolean, world: number): void {
    const round = this.#roundOf(number);
    if (round.verdict !== undefined) return;
    round.said.set(rank, ok);
    if (!ok) this.#failed(number, round);
    if (round.said.size >= world) {
      this.#decide(number, round, [...round.said.values()].every(Boolean));
    }
  }

  /** A rank failed before the end of the round. */
  fail(number: number, rank: number): void {
    const round = this.#roundOf(number);
    round.said.set(rank, false);
    this.#failed(number, round);
  }

  #failed(number: number, round: Round): void {
    if (round.failedAt !== undefined) return;
    round.failedAt = this.#clock.seconds();
    void this.#clock
      .waitUntil(round.failedAt + verdictSeconds)
      .then(() => this.#decide(number, round, false));
  }

  #decide(number: number, round: Round, ok: boolean): void {
    if (round.verdict !== undefined) return;
    round.verdict = ok;
    this.#give(number, ok);
  }

  #roundOf(number: number): Round {
    this.#latest = Math.max(this.#latest, number);
    const known = this.#rounds.get(number);
    if (known !== undefined) return known;
    const fresh: Round = { said: new Map(), failedAt: undefined, verdict: undefined };
    this.#rounds.set(number, fresh);
    for (const old of this.#rounds.keys()) {
      if (this.#rounds.size <= keptRounds) break;
      this.#rounds.delete(old);
    }
    return fresh;
  }
}
