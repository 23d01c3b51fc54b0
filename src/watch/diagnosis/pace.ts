/** Gaps between new highs that are remembered. */
const gapsKept = 16;
/** Nothing new for this many times the longest of them is a pause ... */
const pauseFactor = 2.5;
/** ... if it lasts this long at least. */
const leastPauseSeconds = 1;

/** How regularly a series reaches new highs, at the full fineness of its readings. */
export class Pace {
  readonly #gaps = new Float64Array(gapsKept);
  #rises = 0;
  #high = Number.NEGATIVE_INFINITY;
  #highSeconds = Number.NaN;

  add(seconds: number, bytes: number): void {
    if (bytes <= this.#high) return;
    if (this.#rises > 0) this.#gaps[this.#rises % gapsKept] = seconds - this.#highSeconds;
    this.#rises++;
    this.#high = bytes;
    this.#highSeconds = seconds;
  }

  /** The series came down: what it reached before does not count any more. */
  restart(): void {
    this.#gaps.fill(0);
    this.#rises = 0;
    this.#high = Number.NEGATIVE_INFINITY;
  }

  /** Whether it has been without a new high for much longer than it ever was lately. */
  hasPaused(nowSeconds: number): boolean {
    const longest = this.#gaps.reduce((most, gap) => Math.max(most, gap), 0);
    const since = nowSeconds - this.#highSeconds;
    return since > Math.max(leastPauseSeconds, pauseFactor * longest);
  }
}
