/** Shorter silence is no sign of anything. */
const leastStillSeconds = 60;
/** Readings may be set to come seldom; so many times the usual pause is too long for any setting. */
const stillPauses = 5;

/** Whether readings of devices still come: a daemon whose loop stands still sends none. */
export class ReadingPulse {
  readonly #seconds: () => number;
  #last: number | undefined;
  #pause = 0;

  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  heard(): void {
    const now = this.#seconds();
    this.#pause = now - (this.#last ?? now);
    this.#last = now;
  }

  /** For how long none came, where that is too long; a daemon that never sent one says nothing. */
  stillSeconds(): number | undefined {
    if (this.#last === undefined) return undefined;
    const still = this.#seconds() - this.#last;
    return still > Math.max(leastStillSeconds, stillPauses * this.#pause) ? still : undefined;
  }
}
