/** What is in use for so many seconds in a row is not the peak of a piece of work. */
const stretchSeconds = 5;
/** A smaller rise of the floor is noise: this share of the limit. */
const leastShare = 0.02;
/** Nothing new for this long: it has stopped rising ... */
const quietSeconds = 10;
/** ... or for this many times the usual pause, where it rises again and again. */
const quietFactor = 1.5;
const risesKept = 4;
/** A rise is over when this share of it has come back. */
const givenBackShare = 0.5;

interface Rise {
  readonly seconds: number;
  readonly bytes: number;
}

/** Rises of the floor that are not over yet, even or not. */
export interface RecentRise {
  readonly sinceSeconds: number;
  readonly bytes: number;
  /** How long nothing more must rise until it counts as over. */
  readonly quietSeconds: number;
}

/**
 * Follows the floor of a series in the coarsest way: when did it last reach a height never seen
 * before? It sees jumps and stairs, which steady growth leaves out.
 */
export class Rises {
  /** The lowest value of each of the last seconds that had a reading. */
  readonly #lows: number[] = [];
  #rises: Rise[] = [];
  #second = Number.NaN;
  #highest = Number.NaN;

  add(seconds: number, bytes: number, limitBytes: number): void {
    const second = Math.floor(seconds);
    const last = this.#lows.length - 1;
    if (second === this.#second) {
      this.#lows[last] = Math.min(this.#lows[last] ?? bytes, bytes);
      return;
    }
    this.#second = second;
    if (this.#lows.length >= stretchSeconds) this.#take(seconds, limitBytes);
    this.#lows.push(bytes);
    if (this.#lows.length > stretchSeconds) this.#lows.shift();
  }

  #take(seconds: number, limitBytes: number): void {
    const floor = Math.min(...this.#lows);
    if (Number.isNaN(this.#highest)) this.#highest = floor;
    const bytes = floor - this.#highest;
    if (bytes < leastShare * limitBytes) return;
    this.#highest = floor;
    // It was there for the whole stretch before it counted.
    this.#rises.push({ seconds: seconds - stretchSeconds, bytes });
    if (this.#rises.length > risesKept) this.#rises = this.#rises.slice(-risesKept);
  }

  /** The rises up to now, unless the last of them is over or has come back. */
  recent(nowSeconds: number): RecentRise | undefined {
    const last = this.#rises.at(-1);
    if (!last) return undefined;
    const gaps = this.#rises
      .slice(1)
      .map((rise, i) => rise.seconds - (this.#rises[i]?.seconds ?? 0));
    const usual = gaps.length >= 2 ? Math.max(...gaps.slice(-2)) : 0;
    const quiet = Math.max(quietSeconds, quietFactor * usual);
    const left = last.seconds + quiet - nowSeconds;
    if (left <= 0) return undefined;
    // Those that belong together follow one another without such a pause.
    let first = this.#rises.length - 1;
    while (first > 0 && (gaps[first - 1] ?? 0) <= quiet) first--;
    const together = this.#rises.slice(first);
    const bytes = together.reduce((sum, rise) => sum + rise.bytes, 0);
    const back = this.#highest - (this.#lows.at(-1) ?? this.#highest);
    if (back > givenBackShare * bytes) return undefined;
    return { sinceSeconds: together[0]?.seconds ?? last.seconds, bytes, quietSeconds: left };
  }
}

/** A new height says nothing any more after this long, unless a higher one followed. */
const heightSeconds = 5;
/** Less is the usual difference between pieces of work: this share of the limit. */
const heightShare = 0.03;
/** It is new against all but the last seconds: a growth takes a few to stand out. */
const freshSeconds = 3;

/**
 * Remembers when a series was last clearly higher than ever before. It is the first sign of a growth
 * below work that swings, and shows before the floor does.
 */
export class NewHeights {
  /** The highest values of the last seconds, the present one last. */
  readonly #fresh: number[] = [];
  #second = Number.NaN;
  #settled = Number.NaN;
  #last: Rise | undefined;

  add(seconds: number, bytes: number, limitBytes: number): void {
    const second = Math.floor(seconds);
    if (second === this.#second) {
      const last = this.#fresh.length - 1;
      this.#fresh[last] = Math.max(this.#fresh[last] ?? bytes, bytes);
    } else {
      this.#second = second;
      this.#fresh.push(bytes);
      const over = this.#fresh.length > freshSeconds ? this.#fresh.shift() : undefined;
      if (over !== undefined && !(over <= this.#settled)) this.#settled = over;
    }
    const rise = bytes - this.#settled;
    if (rise >= heightShare * limitBytes) this.#last = { seconds, bytes: rise };
  }

  recent(nowSeconds: number): RecentRise | undefined {
    if (!this.#last) return undefined;
    const { seconds, bytes } = this.#last;
    const left = seconds + heightSeconds - nowSeconds;
    return left > 0 ? { sinceSeconds: seconds, bytes, quietSeconds: left } : undefined;
  }
}
