import type { StepMessage } from './bridge/messages.js';
import type { ProgressPoint } from './types.js';

/** Enough for a chart; a longer run keeps every second point, again and again. */
const maxPoints = 240;

/** Keeps the steps of the first work that tells of some, within bounds, however long a run is. */
export class ProgressBook {
  #who: string | undefined;
  #points: ProgressPoint[] = [];
  #last: { readonly atSeconds: number; readonly step: number } | undefined;
  /** Seconds between points; doubled when there are too many. */
  #gap = 0;

  get points(): readonly ProgressPoint[] {
    return this.#points;
  }

  add(atSeconds: number, message: StepMessage): void {
    this.#who ??= message.who;
    if (message.who !== this.#who) return;
    const { number: step, batch, microbatch, peakBytes, loss } = message;
    const before = this.#last;
    if (before !== undefined && atSeconds - before.atSeconds < this.#gap) return;
    const seconds = before === undefined ? 0 : atSeconds - before.atSeconds;
    const steps = before === undefined ? 0 : step - before.step;
    const rate = seconds > 0 && steps > 0 ? (steps * batch) / seconds : undefined;
    const samplesPerSecond = rate === undefined ? 'unknown' : Math.round(rate * 100) / 100;
    this.#last = { atSeconds, step };
    this.#points.push({
      atSeconds: Math.round(atSeconds * 1000) / 1000,
      step,
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
}
