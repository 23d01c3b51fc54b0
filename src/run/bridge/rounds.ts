import type { Clock } from '../../time/clock.js';

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
export class Rounds {
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
