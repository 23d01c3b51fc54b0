import {
  cleanStepsToGrow,
  evenPart,
  growBack,
  keepBelow,
  type Observation,
} from '../../batches/sizes.js';
import { isKnown, type Known } from '../../units/known.js';
import { decideStep, type Hook, type StepDecision } from '../ladder/in-process.js';
import type { ClimbedRung, OutOfMemory, Rung } from '../types.js';
import type {
  ForecastMessage,
  LoopMessage,
  OutOfMemoryMessage,
  StepMessage,
  WorkState,
} from './messages.js';

/** Sizes that were tried are few; a program that tries more has its oldest forgotten. */
const maxSizes = 64;

export interface GroupEvents {
  /** The most memory that the program may have, as far as the supervisor knows. */
  readonly limitBytes: () => Known<number>;
  readonly onRung: (rung: ClimbedRung['rung'], why: string, secondsAgo: number) => void;
  /** One that the program could not recover from: it will end with it. */
  /** Also where the program goes on: one that ends before its next step ran out of memory. */
  readonly onOutOfMemory: (outOfMemory: OutOfMemory) => void;
  /** A step went well: whatever was raised before, the program survived it. */
  readonly onStep?: () => void;
  /** The same, once for all ranks of a program. */
  readonly onProgress?: (step: StepMessage | LoopMessage) => void;
}

/** The memory that a work has, as its processes last told. */
export interface WorkMemory {
  readonly limitBytes: Known<number>;
  /** Bytes held before the first sample of a batch. */
  readonly baseBytes: Known<number>;
  /** Bytes that the allocator holds and no tensor uses. */
  readonly cachedBytes: Known<number>;
}

/**
 * Combines the reports of all ranks of one work and decides their next step: the same for all
 * ranks. It does no I/O; the sockets are elsewhere.
 */
export class RankGroup {
  readonly #events: GroupEvents;
  readonly #sizes = new Map<number, Observation>();
  readonly #climbed = new Set<Rung>();
  #microbatch = 0;
  #batch = 0;
  #cleanSteps = 0;
  #lastStep = 0;
  #failedGrowths = 0;
  /** The size before it last grew; 0 where no growth is to be judged. */
  #grewFrom = 0;
  /** The size that the program was last told to grow to. */
  #grewTo = 0;
  #smallestFailed: Known<number> = 'unknown';
  /** Failures since the last step that went well: of all sizes, and in a row of the same one. */
  #failures = 0;
  #attempt = 0;
  #lastFailed = 0;

  constructor(events: GroupEvents) {
    this.#events = events;
  }

  get microbatch(): number {
    return this.#microbatch;
  }

  /** Goes on from what was done under another supervisor; what was heard here counts for more. */
  resume(state: WorkState): void {
    for (const { microbatch, peakBytes } of state.sizes) {
      if (!this.#sizes.has(microbatch)) this.#observe(microbatch, peakBytes, false);
    }
    if (this.#lastStep > 0 || this.#microbatch > 0) return;
    this.#microbatch = state.microbatch;
    this.#batch = state.batch;
    this.#lastStep = state.steps;
    this.#smallestFailed = state.smallestFailed;
  }

  step(message: StepMessage, memory: WorkMemory): { microbatch: number; why: string } | undefined {
    const { microbatch, batch, peakBytes } = message;
    this.#microbatch = microbatch;
    this.#batch = batch;
    this.#failures = 0;
    this.#attempt = 0;
    // Only some steps are told; their numbers count the rest. One that starts anew begins again.
    const since = message.number - this.#lastStep;
    this.#cleanSteps += since > 0 && this.#lastStep > 0 ? since : 1;
    this.#lastStep = message.number;
    // A batch runs in even parts: its peak is that of the largest of them.
    const part = evenPart(batch, microbatch);
    this.#observe(part, peakBytes, false);
    if (isKnown(this.#smallestFailed) && part >= this.#smallestFailed) {
      this.#smallestFailed = 'unknown';
    }
    const grown = growBack({
      microbatch,
      batch,
      cleanSteps: this.#cleanSteps,
      failedGrowths: this.#failedGrowths,
      smallestFailed: this.#smallestFailed,
      limitBytes: memory.limitBytes,
      baseBytes: memory.baseBytes,
      observations: [...this.#sizes.values()],
    });
    if (grown === undefined) return undefined;
    // A program that has not heard of it yet is not told again at once.
    if (grown.microbatch === this.#grewTo && this.#cleanSteps < cleanStepsToGrow) return undefined;
    this.#cleanSteps = 0;
    this.#grewTo = grown.microbatch;
    this.#grewFrom = part;
    this.#events.onRung('grow-back', `${grown.why}: ${microbatch} becomes ${grown.microbatch}.`, 0);
    return grown;
  }

  outOfMemory(
    message: OutOfMemoryMessage,
    memory: WorkMemory,
    hooks: ReadonlySet<Hook>,
  ): StepDecision {
    const microbatch = Math.max(1, message.microbatch || this.#microbatch);
    this.#microbatch = microbatch;
    this.#batch = Math.max(this.#batch, message.batch, microbatch);
    this.#failures++;
    this.#attempt = this.#failedBefore(microbatch) + 1;
    this.#lastFailed = microbatch;
    const decision = decideStep({
      microbatch,
      askedBytes: message.askedBytes,
      peakBytes: message.peakBytes,
      ...memory,
      hooks,
      climbed: this.#climbed,
      attempt: this.#attempt,
      gaveBackCache: this.#failures > 1,
      // The process sees its device at this moment: it waits by itself, and asks only otherwise.
      othersHold: false,
      observations: [...this.#sizes.values()],
    });
    this.#took(decision, message, microbatch);
    return decision;
  }

  /** In this batch, or in steps just before: what fitted then no longer does. One sample cannot be less. */
  #failedBefore(microbatch: number): number {
    if (this.#lastFailed !== microbatch) return 0;
    const lately = microbatch > 1 && this.#cleanSteps < cleanStepsToGrow;
    return Math.max(this.#attempt, lately ? 1 : 0);
  }

  /** Before a step that will not fit: the size that does. No failure, so nothing is forgotten. */
  ahead(message: ForecastMessage, memory: WorkMemory): StepDecision {
    const limits = [memory.limitBytes, message.limitBytes].filter(isKnown);
    const smaller = keepBelow({
      ...message,
      limitBytes: limits.length === 0 ? 'unknown' : Math.min(...limits),
      observations: message.sizes.map(({ microbatch: batch, peakBytes }) => ({
        batch,
        peakBytes,
        isAtLeast: false,
      })),
    });
    this.#batch = message.batch;
    this.#microbatch = smaller?.microbatch ?? message.microbatch;
    if (smaller === undefined) {
      const why = `${message.microbatch} samples stay under the load line.`;
      return { action: 'retry', microbatch: message.microbatch, rung: undefined, why };
    }
    // Growing back waits twice as long: what grows may go on growing.
    this.#failedGrowths++;
    this.#cleanSteps = 0;
    this.#grewFrom = 0;
    this.#grewTo = 0;
    const why = `${smaller.why}; now ${smaller.microbatch}, before memory runs out.`;
    this.#events.onRung('smaller-microbatch', why, 0);
    return { action: 'retry', microbatch: smaller.microbatch, rung: 'smaller-microbatch', why };
  }

  #took(decision: StepDecision, message: OutOfMemoryMessage, failed: number): void {
    this.#cleanSteps = 0;
    if (decision.action === 'raise' || decision.rung === undefined) return;
    if (decision.rung === 'smaller-microbatch') {
      this.#forgetFrom(failed);
      this.#observe(failed, message.peakBytes, true);
      const known = isKnown(this.#smallestFailed) ? this.#smallestFailed : failed;
      this.#smallestFailed = Math.min(known, failed);
      if (this.#grewFrom > 0 && failed > this.#grewFrom) this.#failedGrowths++;
      this.#grewFrom = 0;
      this.#grewTo = 0;
      this.#microbatch = decision.microbatch;
    } else if (decision.rung !== 'give-back-cache') {
      this.#climbed.add(decision.rung);
      // What was measured before no longer holds.
      this.#sizes.clear();
      this.#smallestFailed = 'unknown';
    }
    this.#events.onRung(decision.rung, decision.why, 0);
  }

  /** Sizes that fitted, and now fail: what was measured of them no longer holds. */
  #forgetFrom(failed: number): void {
    for (const batch of this.#sizes.keys()) if (batch >= failed) this.#sizes.delete(batch);
  }

  #observe(batch: number, peakBytes: Known<number>, isAtLeast: boolean): void {
    if (!isKnown(peakBytes)) return;
    const before = this.#sizes.get(batch);
    // A size that failed and later fits fits: what stood beside it is gone.
    if (before && before.isAtLeast === isAtLeast && before.peakBytes >= peakBytes) return;
    this.#sizes.delete(batch);
    this.#sizes.set(batch, { batch, peakBytes, isAtLeast });
    const [oldest] = this.#sizes.keys();
    if (this.#sizes.size > maxSizes && oldest !== undefined) this.#sizes.delete(oldest);
  }
}
