/** The meaning of the horizontal axis: time, evenly, or the order of events. */
export type AxisKind = 'time' | 'events';

/** Times of ticks: between two points time goes on evenly. */
export class TimeAxis {
  readonly #ticks: Uint32Array;
  readonly #seconds: Float64Array;

  constructor(ticks: Uint32Array, seconds: Float64Array) {
    this.#ticks = ticks;
    this.#seconds = seconds;
  }

  /** The recording has times. */
  get known(): boolean {
    return this.#ticks.length > 1;
  }

  get lastSeconds(): number {
    return this.#seconds.at(-1) ?? 0;
  }

  secondsAt(tick: number): number {
    if (!this.known) return 0;
    const at = segmentOf(this.#ticks, tick);
    const [from, to] = [this.#ticks[at] ?? 0, this.#ticks[at + 1] ?? 0];
    const [low, high] = [this.#seconds[at] ?? 0, this.#seconds[at + 1] ?? 0];
    return low + (high - low) * share(tick, from, to);
  }

  /** The last tick that is not after this time. */
  tickAt(seconds: number): number {
    if (!this.known) return 0;
    const at = segmentOf(this.#seconds, seconds);
    const [low, high] = [this.#seconds[at] ?? 0, this.#seconds[at + 1] ?? 0];
    const [from, to] = [this.#ticks[at] ?? 0, this.#ticks[at + 1] ?? 0];
    return Math.floor(from + (to - from) * share(seconds, low, high));
  }
}

function share(value: number, from: number, to: number): number {
  return to > from ? Math.min(1, Math.max(0, (value - from) / (to - from))) : 1;
}

/** The last place whose value is not above `wanted`, and which has another after it. */
function segmentOf(sorted: Uint32Array | Float64Array, wanted: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) <= wanted) low = middle;
    else high = middle;
  }
  return low;
}
