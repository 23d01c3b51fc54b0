import type { Clock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import type { StepDecision } from '../ladder/in-process.js';
import { type GroupEvents, RankGroup } from './group.js';
import type { FromSdk, Hello, OutOfMemoryMessage, ToSdk } from './messages.js';
import { Rounds } from './rounds.js';

/** One process of the job that speaks to us. */
export interface Peer {
  send(message: ToSdk): void;
}

interface Party {
  readonly group: RankGroup;
  readonly rounds: Rounds;
  /** Decisions by round: every rank must hear the same. */
  readonly decided: Map<number, StepDecision>;
  readonly peers: Map<Peer, Hello>;
  world: number;
}

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

  constructor(clock: Clock, events: GroupEvents) {
    this.#clock = clock;
    this.#events = events;
  }

  /** The most that any of its processes held. */
  get peakBytes(): Known<number> {
    const peaks = [...this.#parties.values()].map(({ group }) => group.peakBytes).filter(isKnown);
    const peak = Math.max(this.#pastPeakBytes, ...peaks);
    return peak === 0 ? 'unknown' : peak;
  }

  get baseBytes(): Known<number> {
    const bases = [...this.#parties.values()].map(({ group }) => group.baseBytes).filter(isKnown);
    return bases.length === 0 ? 'unknown' : Math.max(...bases);
  }

  /** The file that was written when memory last ran out. */
  get snapshot(): string | null {
    return this.#snapshot;
  }

  /** Steps that went well. */
  get steps(): number {
    return this.#steps;
  }

  take(peer: Peer, message: FromSdk): void {
    if (message.type === 'hello') {
      this.#join(peer, message);
      return;
    }
    const party = this.#parties.get(peer);
    if (party === undefined) return;
    switch (message.type) {
      case 'figures':
        party.group.figures(message);
        break;
      case 'step': {
        this.#steps++;
        this.#events.onStep?.();
        // The lowest rank counts for all: each of them makes the same steps.
        if (party.peers.get(peer)?.rank !== lowestRank(party)) break;
        const grown = party.group.step(message);
        if (grown !== undefined) broadcast(party, { type: 'grow', ...grown });
        break;
      }
      case 'oom':
        this.#outOfMemory(peer, party, message);
        break;
      case 'barrier': {
        const verdict = party.rounds.verdictOf(message.round);
        if (verdict === undefined) {
          party.rounds.say(message.round, message.rank, message.ok, party.world);
        } else peer.send(verdictMessage(party, message.round, verdict));
        break;
      }
      case 'bye':
        this.leave(peer);
        break;
    }
  }

  leave(peer: Peer): void {
    const party = this.#parties.get(peer);
    if (party === undefined) return;
    this.#parties.delete(peer);
    party.peers.delete(peer);
    const { peakBytes } = party.group;
    if (isKnown(peakBytes)) this.#pastPeakBytes = Math.max(this.#pastPeakBytes, peakBytes);
  }

  #join(peer: Peer, hello: Hello): void {
    // Said again when a program declares more; what is known of it stays.
    const before = this.#parties.get(peer);
    if (before !== undefined && before.world > 1 === hello.world > 1) {
      before.peers.set(peer, hello);
      before.group.declare(hello.hooks);
      return;
    }
    this.leave(peer);
    const party = hello.world > 1 ? (this.#together ??= this.#newParty()) : this.#newParty();
    party.world = Math.max(party.world, hello.world);
    party.peers.set(peer, hello);
    party.group.declare(hello.hooks);
    this.#parties.set(peer, party);
  }

  #outOfMemory(peer: Peer, party: Party, message: OutOfMemoryMessage): void {
    this.#snapshot = message.snapshot ?? this.#snapshot;
    if (party.world === 1) {
      const decision = party.group.outOfMemory(message);
      peer.send(decideMessage(decision, message.id, message.round ?? null));
      return;
    }
    const round = message.round ?? party.rounds.current;
    const before = party.decided.get(round);
    const decision = before ?? party.group.outOfMemory(message);
    if (before === undefined) {
      party.decided.set(round, decision);
      const [oldest] = party.decided.keys();
      if (party.decided.size > 16 && oldest !== undefined) party.decided.delete(oldest);
      for (const other of party.peers.keys()) {
        if (other !== peer) other.send(decideMessage(decision, null, round));
      }
    }
    peer.send(decideMessage(decision, message.id, round));
    party.rounds.fail(round, message.rank);
  }

  #newParty(): Party {
    const party: Party = {
      group: new RankGroup(this.#events),
      rounds: new Rounds(this.#clock, (round, ok) => {
        broadcast(party, verdictMessage(party, round, ok));
      }),
      decided: new Map(),
      peers: new Map(),
      world: 1,
    };
    return party;
  }
}

function lowestRank({ peers }: Party): number {
  return Math.min(...[...peers.values()].map(({ rank }) => rank));
}

function broadcast({ peers }: Party, message: ToSdk): void {
  for (const peer of peers.keys()) peer.send(message);
}

function verdictMessage(party: Party, round: number, ok: boolean): ToSdk {
  const microbatch = party.decided.get(round)?.microbatch ?? party.group.microbatch;
  return { type: 'verdict', round, ok, microbatch };
}

function decideMessage(
  { action, microbatch, rung, why }: StepDecision,
  id: string | number | null,
  round: number | null,
): ToSdk {
  return { type: 'decide', id, round, action, microbatch, rung: rung ?? null, why };
}
