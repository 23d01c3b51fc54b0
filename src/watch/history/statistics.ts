import { isKnown, type Known } from '../../units/known.js';
import type { Statistics } from '../types.js';

/** Figures over every sample ever added, in constant memory. */
export class RunningStatistics {
  #samples = 0;
  #used = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;
  #maxAtSeconds = 0;
  /** Running means: a sum of bytes over a week would leave the integers a double can hold. */
  #mean = 0;
  #percents = 0;
  #meanPercent = 0;
  #maxPercent = 0;

  add(atSeconds: number, usedBytes: Known<number>, totalBytes: Known<number>): void {
    this.#samples++;
    if (!isKnown(usedBytes)) return;
    this.#used++;
    this.#mean += (usedBytes - this.#mean) / this.#used;
    if (usedBytes < this.#min) this.#min = usedBytes;
    if (usedBytes > this.#max) {
      this.#max = usedBytes;
      this.#maxAtSeconds = atSeconds;
    }
    if (!isKnown(totalBytes) || totalBytes <= 0) return;
    const percent = (100 * usedBytes) / totalBytes;
    this.#percents++;
    this.#meanPercent += (percent - this.#meanPercent) / this.#percents;
    this.#maxPercent = Math.max(this.#maxPercent, percent);
  }

  read(): Statistics {
    const ifUsed = (value: number): Known<number> => (this.#used > 0 ? value : 'unknown');
    const ifPercent = (value: number): Known<number> => (this.#percents > 0 ? value : 'unknown');
    return {
      samples: this.#samples,
      minUsedBytes: ifUsed(this.#min),
      meanUsedBytes: ifUsed(Math.round(this.#mean)),
      maxUsedBytes: ifUsed(this.#max),
      maxAtSeconds: ifUsed(this.#maxAtSeconds),
      meanUsedPercent: ifPercent(this.#meanPercent),
      maxUsedPercent: ifPercent(this.#maxPercent),
    };
  }
}
