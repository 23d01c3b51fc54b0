/** Of what costs some tenths of a millisecond each: a turn of the event loop stays short. */
const perTurn = 2;

/**
 * Spreads work over turns of the event loop, so that a new connection and what others ask come in
 * between: Node accepts one connection a turn. The newest goes first: under a flood of requests it may
 * be the owner, who opens the page.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #isOn = false;

  get count(): number {
    return this.#waiting.length;
  }

  /** Resolves when it is the caller's turn. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#isOn) return;
      this.#isOn = true;
      setImmediate(() => this.#go());
    });
  }

  #go(): void {
    for (let left = perTurn; left > 0; left--) this.#waiting.pop()?.();
    this.#isOn = this.#waiting.length > 0;
    if (this.#isOn) setImmediate(() => this.#go());
  }
}
