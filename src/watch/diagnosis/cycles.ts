import type { EnvelopePoint } from './growth.js';

/** One climb of a sawtooth: from its trough to its peak. */
export interface Climb {
  readonly trough: EnvelopePoint;
  readonly peak: EnvelopePoint;
}

/** A fall counts when it gives back this share of the limit: smaller ones are the work itself. */
const fallShareOfLimit = 0.1;
/** ... and this share of what had been climbed. */
const fallShareOfClimb = 0.35;
const climbsKept = 16;

/**
 * Follows the large swings of a series: an epoch that gathers and lets go, a cache that is emptied,
 * one job after another. What went up and came down before is no news when it goes up again.
 */
export class Cycles {
  readonly #climbs: Climb[] = [];
  #trough: EnvelopePoint | undefined;
  #peak: EnvelopePoint | undefined;

  add(seconds: number, bytes: number, limitBytes: number): void {
    const point = { seconds, bytes };
    if (!this.#trough || !this.#peak) {
      this.#trough = point;
      this.#peak = point;
      return;
    }
    if (bytes >= this.#peak.bytes) {
      this.#peak = point;
      return;
    }
    const drop = this.#peak.bytes - bytes;
    const climbed = this.#peak.bytes - this.#trough.bytes;
    if (drop >= fallShareOfLimit * limitBytes && drop >= fallShareOfClimb * climbed) {
      if (climbed >= fallShareOfLimit * limitBytes) {
        this.#climbs.push({ trough: this.#trough, peak: this.#peak });
        if (this.#climbs.length > climbsKept) this.#climbs.shift();
      }
      this.#trough = point;
      this.#peak = point;
      return;
    }
    if (bytes < this.#trough.bytes) {
      this.#trough = point;
      this.#peak = point;
    }
  }

  /** Climbs that ended in a fall, oldest first. */
  get climbs(): readonly Climb[] {
    return this.#climbs;
  }

  /** Where the climb that goes on now began. */
  get trough(): EnvelopePoint | undefined {
    return this.#trough;
  }

  get troughSeconds(): number {
    return this.#trough?.seconds ?? Number.NaN;
  }
}
