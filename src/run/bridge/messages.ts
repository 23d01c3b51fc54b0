import type { StepReading } from '../../batches/sizes/keep-below.js';
import type { MeasuredStep, SpillPlan } from '../../estimate/spill-decision.js';
import type { Known } from '../../units/known.js';
import type { Hook } from '../ladder/in-process.js';
import type { AttemptBuffers, AttemptSpill, ClimbedRung, MeasuredSize } from '../types.js';

export interface Hello {
  readonly type: 'hello';
  readonly version: number;
  readonly pid: number;
  readonly rank: number;
  readonly world: number;
  readonly torch: string | null;
  readonly hooks: readonly Hook[];
  readonly device: string;
  /** The most that it ever held. */
  readonly peakBytes: Known<number>;
  /** What it did so far, under any supervisor: one that comes late goes on from there. */
  readonly works: readonly WorkState[];
  /** Whether its memory can give way: now, or when it is started again with spilling. */
  readonly spill: boolean;
}

/**
 * One thing in a process that works in microbatches: a training step, a function of a batch. Each
 * has its own sizes, and hears only what is said of them.
 */
export interface WorkState {
  readonly who: string;
  /** Steps that went well. */
  readonly steps: number;
  readonly microbatch: number;
  readonly batch: number;
  /** Sizes that fitted, and their peaks. */
  readonly sizes: readonly MeasuredSize[];
  readonly smallestFailed: Known<number>;
}

/** What the allocator in the process holds. */
export interface Figures {
  readonly type: 'figures';
  readonly at: number;
  readonly allocatedBytes: Known<number>;
  readonly reservedBytes: Known<number>;
  readonly peakAllocatedBytes: Known<number>;
  readonly peakReservedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly totalBytes: Known<number>;
  readonly phase: string;
  readonly buffers?: BufferFigures;
}

export interface OutOfMemoryMessage {
  readonly type: 'oom';
  readonly id: string | number;
  readonly rank: number;
  readonly round: number | undefined;
  readonly phase: string;
  readonly kind: string;
  readonly message: string;
  readonly askedBytes: Known<number>;
  readonly microbatch: number;
  readonly batch: number;
  readonly peakBytes: Known<number>;
  readonly snapshot: string | null;
  readonly who: string;
  /** What is left that this work can change; undefined where only the hello tells. */
  readonly hooks: readonly Hook[] | undefined;
  /** It was not caught: there is nothing to decide any more. */
  readonly uncaught: boolean;
}

/** After an out-of-memory that was not caught: what steps of a few samples take, the process still there. */
export interface MeasuredMessage {
  readonly type: 'measured';
  readonly sizes: readonly MeasuredSize[];
}

/** A step that is still to come, and that will pass the load line by what the program measured. */
export interface ForecastMessage {
  readonly type: 'forecast';
  readonly id: string | number;
  readonly who: string;
  readonly step: number;
  readonly microbatch: number;
  readonly batch: number;
  readonly baseBytes: number;
  readonly limitBytes: Known<number>;
  readonly readings: readonly StepReading[];
  readonly sizes: WorkState['sizes'];
}

export interface StepMessage {
  readonly type: 'step';
  readonly who: string;
  readonly number: number;
  readonly microbatch: number;
  readonly batch: number;
  readonly peakBytes: Known<number>;
  readonly loss: Known<number>;
  /** Not so for calls of a function: generation, evaluation. */
  readonly training: boolean;
}

/** A step of a loop that knows nothing of us; what it holds of a batch is not seen. */
export interface LoopMessage {
  readonly type: 'loop';
  readonly who: string;
  readonly number: number;
  readonly peakBytes: Known<number>;
  readonly loss: Known<number>;
}

/** The program wrote a checkpoint that it goes on from when it is started again. */
export interface SavedMessage {
  readonly type: 'saved';
  readonly steps: number;
}

/** What gave way so far, since the process started. */
export interface SpillMessage extends Omit<AttemptSpill, 'aside'> {
  readonly type: 'spill';
  /** Whether it spills or recomputes at the moment. */
  readonly active: boolean;
  /** Why it leaves this program alone, in one line. */
  readonly aside: string | null;
}

/** The first measured step: the program asks how it shall stay in its limit. */
export interface BlocksMessage {
  readonly type: 'blocks';
  readonly id: string | number;
  readonly limitBytes: Known<number>;
  readonly measured: MeasuredStep;
}

/** The limit that a process keeps from now on. It is above the one that was asked where that cannot hold. */
export interface LimitSetMessage {
  readonly type: 'limit-set';
  readonly bytes: number;
  readonly allocatedBytes: Known<number>;
  /** The number of the `limit` that it answers; undefined where it does not tell. */
  readonly order: number | undefined;
}

export interface BarrierMessage {
  readonly type: 'barrier';
  readonly round: number;
  readonly rank: number;
  readonly ok: boolean;
}

/** A rung that the program climbed by itself, because there was no supervisor to ask. */
export interface ClimbedMessage {
  readonly type: 'climbed';
  readonly rung: ClimbedRung['rung'];
  readonly why: string;
  readonly secondsAgo: number;
}

export type FromSdk =
  | Hello
  | Figures
  | OutOfMemoryMessage
  | MeasuredMessage
  | ForecastMessage
  | StepMessage
  | LoopMessage
  | SavedMessage
  | BarrierMessage
  | ClimbedMessage
  | SpillMessage
  | BlocksMessage
  | LimitSetMessage
  | { readonly type: 'bye' };

export type ToSdk =
  | {
      readonly type: 'decide';
      readonly id: string | number | null;
      readonly round: number | null;
      readonly action: 'retry' | 'wait' | 'raise';
      readonly microbatch: number;
      readonly rung: string | null;
      readonly why: string;
    }
  | {
      readonly type: 'grow';
      readonly who: string;
      readonly microbatch: number;
      readonly why: string;
    }
  | ({ readonly type: 'spill-plan'; readonly id: string | number } & SpillPlan)
  /** From now on it may have so much, counted as PLIMSOLL_MEMORY_BYTES is. */
  | { readonly type: 'limit'; readonly bytes: number; readonly order: number }
  | {
      readonly type: 'verdict';
      readonly round: number;
      readonly ok: boolean;
      readonly microbatch: number;
    };

/** What one process reports of its buffer stores; whole numbers. */
export type BufferFigures = Omit<AttemptBuffers, 'hitRate' | 'compressionRatio'>;

export const bufferFields = [
  'items',
  'hits',
  'misses',
  'evictions',
  'memoryBytes',
  'fileBytes',
  'rawBytes',
] as const satisfies readonly (keyof BufferFigures)[];

/** Of all processes together; undefined where none has a store. */
export function sumBuffers(all: readonly BufferFigures[]): AttemptBuffers | undefined {
  if (all.length === 0) return undefined;
  const total = (name: keyof BufferFigures) => all.reduce((sum, one) => sum + one[name], 0);
  const [hits, misses] = [total('hits'), total('misses')];
  const [memoryBytes, fileBytes, rawBytes] = [
    total('memoryBytes'),
    total('fileBytes'),
    total('rawBytes'),
  ];
  return {
    items: total('items'),
    hits,
    misses,
    evictions: total('evictions'),
    memoryBytes,
    fileBytes,
    rawBytes,
    hitRate: hits + misses === 0 ? 'unknown' : hits / (hits + misses),
    compressionRatio:
      memoryBytes + fileBytes === 0 ? 'unknown' : rawBytes / (memoryBytes + fileBytes),
  };
}
