import { isKnown, type Known } from '../units/known.js';
import { knownFlags } from './adapt/known-flags.js';
import type { ProgressPoint, RunSettings } from './types.js';

/** Enough for a chart; a longer run keeps every second point, again and again. */
const maxPoints = 240;

/**
 * A rate is that of at least so long. What a busy machine reads late comes in at once: the time between two
 * messages says nothing then.
 */
const rateSeconds = 1;

/** A step that went well, as a program told it. */
interface Reached {
  readonly who: string;
  readonly number: number;
  readonly microbatch: Known<number>;
  /** Samples of one step. */
  readonly batch: Known<number>;
  readonly peakBytes: Known<number>;
  readonly loss: Known<number>;
  /** Calls of a function are none: generation, evaluation. */
  readonly training?: boolean;
}

interface Reading {
  readonly atSeconds: number;
  readonly step: number;
}

/**
 * Keeps the steps of the first work that trains and tells of some, within bounds, however long a run is;
 * until one trains, the calls of the first that tells.
 */
export class ProgressBook {
  #who: string | undefined;
  #isTraining = false;
  #points: ProgressPoint[] = [];
  /** Readings for the next rate, oldest first: one from before the last second, and all since. */
  #recent: Reading[] = [];
  /** Seconds between points; doubled when there are too many. */
  #gap = 0;

  get points(): readonly ProgressPoint[] {
    return this.#points;
  }

  add(atSeconds: number, reached: Reached): void {
    const isTraining = reached.training !== false;
    if (isTraining && !this.#isTraining) this.#begin(reached.who);
    this.#isTraining ||= isTraining;
    this.#who ??= reached.who;
    if (reached.who !== this.#who) return;
    const { number: step, batch, microbatch, peakBytes, loss } = reached;
    const last = this.#recent.at(-1);
    if (last !== undefined && atSeconds - last.atSeconds < this.#gap) return;
    const stepsPerSecond = this.#rate(atSeconds, step);
    const samplesPerSecond =
      isKnown(stepsPerSecond) && isKnown(batch)
        ? Math.round(stepsPerSecond * batch * 100) / 100
        : 'unknown';
    this.#points.push({
      atSeconds: Math.round(atSeconds * 1000) / 1000,
      step,
      // Four digits, also of a step that takes minutes.
      stepsPerSecond: isKnown(stepsPerSecond) ? Number(stepsPerSecond.toPrecision(4)) : 'unknown',
      samplesPerSecond,
      loss,
      microbatch,
      peakBytes,
    });
    if (this.#points.length <= maxPoints) return;
    this.#points = this.#points.filter((_, index) => index % 2 === 0);
    const first = this.#points[0]?.atSeconds ?? 0;
    this.#gap = (atSeconds - first) / (maxPoints / 2);
  }

  #begin(who: string): void {
    this.#who = who;
    this.#points = [];
    this.#recent = [];
    this.#gap = 0;
  }

  #rate(atSeconds: number, step: number): Known<number> {
    // The program counts its steps from the beginning: earlier steps say nothing of the rate.
    if (step <= (this.#recent.at(-1)?.step ?? step)) this.#recent = [];
    this.#recent.push({ atSeconds, step });
    while (atSeconds - (this.#recent[1]?.atSeconds ?? atSeconds) >= rateSeconds) {
      this.#recent.shift();
    }
    const from = this.#recent[0];
    const seconds = from === undefined ? 0 : atSeconds - from.atSeconds;
    return from === undefined || seconds < rateSeconds ? 'unknown' : (step - from.step) / seconds;
  }
}

/** The batch of a loop that does not tell it: what it was told to take, by us or by its own options. */
export function statedBatch(
  { batch_size: size, accumulation }: RunSettings,
  command: readonly string[],
): Pick<Reached, 'microbatch' | 'batch'> {
  if (isKnown(size)) return { microbatch: size, batch: size * accumulation };
  const flags = knownFlags(command);
  if (flags === undefined) return { microbatch: 'unknown', batch: 'unknown' };
  return { microbatch: flags.batch, batch: flags.batch * flags.accumulation };
}
