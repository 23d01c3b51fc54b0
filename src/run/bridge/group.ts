import { isKnown, type Known } from '../../units/known.js';
import type { ClimbedRung, OutOfMemory, Rung } from '../contract.js';
import type { Observation } from '../ladder/fit.js';
import { growBack } from '../ladder/grow.js';
import { decideStep, type Hook, type StepDecision } from '../ladder/in-process.js';
import type { Figures, OutOfMemoryMessage, StepMessage } from './messages.js';

/** Sizes that were tried are few; a program that tries more has its oldest forgotten. */
const mostSizes = 64;

export interface GroupEvents {
  /** The most memory that the program may have, as far as the supervisor knows. */
  readonly limitBytes: () => Known<number>;
  readonly onRung: (rung: ClimbedRung['rung'], why: string) => void;
  /** One that the program could not mend: it will end with it. */
  readonly onRaise: (outOfMemory: OutOfMemory) => void;
  /** A step went well: whatever was raised before, the program survived it. */
  readonly onStep?: () => void;
}

/**
 * What is known of the ranks of one program, and what they should do: the same for all of them.
 * It decides; the sockets are elsewhere.
 */
export class RankGroup {
  readonly #events: GroupEvents;
  readonly #sizes = new Map<number, Observation>();
  readonly #climbed = new Set<Rung>();
  readonly #hooks = new Set<Hook>();
  #microbatch = 0;
  #batch = 0;
  #cleanSteps = 0;
  #lastStep = 0;
  #failedGrowths = 0;
  #grewTo = 0;
  #smallestFailed: Known<number> = 'unknown';
  #baseBytes: Known<number> = 'unknown';
  #latest: Figures | undefined;
  #peakBytes: Known<number> = 'unknown';
  #gaveBackCache = false;

  constructor(events: GroupEvents) {
    this.#events = events;
  }

  /** The most that any of its processes held. */
  get peakBytes(): Known<number> {
    return this.#peakBytes;
  }

  /** What it holds before the first sample of a batch. */
  get baseBytes(): Known<number> {
    return this.#baseBytes;
  }

  get microbatch(): number {
    return this.#microbatch;
  }

  declare(hooks: readonly Hook[]): void {
    for (const hook of hooks) this.#hooks.add(hook);
  }

  figures(figures: Figures): void {
    this.#latest = figures;
    const { peakReservedBytes, peakAllocatedBytes, allocatedBytes, phase } = figures;
    this.#sawPeak(isKnown(peakReservedBytes) ? peakReservedBytes : peakAllocatedBytes);
    if (phase === 'idle') this.#baseBytes = allocatedBytes;
  }

  step(message: StepMessage): { microbatch: number; why: string } | undefined {
    const { microbatch, batch, peakBytes } = message;
    this.#microbatch = microbatch;
    this.#batch = batch;
    this.#gaveBackCache = false;
    // Only some steps are told; their numbers count the rest. One that starts anew begins again.
    const since = message.number - this.#lastStep;
    this.#cleanSteps += since > 0 && this.#lastStep > 0 ? since : 1;
    this.#lastStep = message.number;
    this.#sawPeak(peakBytes);
    this.#observe(microbatch, peakBytes, false);
    const grown = growBack({
      microbatch,
      batch,
      cleanSteps: this.#cleanSteps,
      failedGrowths: this.#failedGrowths,
      smallestFailed: this.#smallestFailed,
      limitBytes: this.#limit(),
      baseBytes: this.#baseBytes,
      observations: [...this.#sizes.values()],
    });
    if (grown === undefined) return undefined;
    this.#cleanSteps = 0;
    this.#grewTo = grown.microbatch;
    this.#events.onRung('grow-back', `${grown.why}: ${microbatch} becomes ${grown.microbatch}.`);
    return grown;
  }

  outOfMemory(message: OutOfMemoryMessage): StepDecision {
    const microbatch = Math.max(1, message.microbatch || this.#microbatch);
    this.#microbatch = microbatch;
    this.#batch = Math.max(this.#batch, message.batch, microbatch);
    const { reservedBytes = 'unknown', allocatedBytes = 'unknown' } = this.#latest ?? {};
    const cachedBytes =
      isKnown(reservedBytes) && isKnown(allocatedBytes)
        ? Math.max(0, reservedBytes - allocatedBytes)
        : 'unknown';
    const decision = decideStep({
      microbatch,
      askedBytes: message.askedBytes,
      peakBytes: message.peakBytes,
      limitBytes: this.#limit(),
      baseBytes: this.#baseBytes,
      cachedBytes,
      hooks: this.#hooks,
      climbed: this.#climbed,
      gaveBackCache: this.#gaveBackCache,
      observations: [...this.#sizes.values()],
    });
    this.#took(decision, message, microbatch);
    return decision;
  }

  #took(decision: StepDecision, message: OutOfMemoryMessage, failed: number): void {
    this.#sawPeak(message.peakBytes);
    this.#cleanSteps = 0;
    if (decision.action === 'raise') {
      const { kind, askedBytes, message: text } = message;
      const totalBytes = this.#limit();
      this.#events.onRaise({ kind, askedBytes, freeBytes: 'unknown', totalBytes, message: text });
      return;
    }
    if (decision.rung === undefined) return;
    if (decision.rung === 'give-back-cache') this.#gaveBackCache = true;
    else if (decision.rung === 'smaller-microbatch') {
      this.#observe(failed, message.peakBytes, true);
      const known = isKnown(this.#smallestFailed) ? this.#smallestFailed : failed;
      this.#smallestFailed = Math.min(known, failed);
      if (this.#grewTo > 0 && failed >= this.#grewTo) this.#failedGrowths++;
      this.#grewTo = 0;
      this.#microbatch = decision.microbatch;
    } else {
      this.#climbed.add(decision.rung);
      // What was measured before no longer holds.
      this.#sizes.clear();
      this.#smallestFailed = 'unknown';
    }
    this.#events.onRung(decision.rung, decision.why);
  }

  #observe(batch: number, peakBytes: Known<number>, isAtLeast: boolean): void {
    if (!isKnown(peakBytes)) return;
    const before = this.#sizes.get(batch);
    // A size that failed and later fits fits: what stood beside it is gone.
    if (before && before.isAtLeast === isAtLeast && before.peakBytes >= peakBytes) return;
    this.#sizes.delete(batch);
    this.#sizes.set(batch, { batch, peakBytes, isAtLeast });
    const [oldest] = this.#sizes.keys();
    if (this.#sizes.size > mostSizes && oldest !== undefined) this.#sizes.delete(oldest);
  }

  #sawPeak(bytes: Known<number>): void {
    if (!isKnown(bytes)) return;
    this.#peakBytes = Math.max(bytes, isKnown(this.#peakBytes) ? this.#peakBytes : 0);
  }

  /** What it was given, or what the device can still give: a neighbour may have taken the rest. */
  #limit(): Known<number> {
    const given = this.#events.limitBytes();
    const { freeBytes = 'unknown', reservedBytes = 'unknown' } = this.#latest ?? {};
    const left =
      isKnown(freeBytes) && isKnown(reservedBytes) ? freeBytes + reservedBytes : 'unknown';
    if (!isKnown(given)) return left;
    return isKnown(left) ? Math.min(given, left) : given;
  }
}
