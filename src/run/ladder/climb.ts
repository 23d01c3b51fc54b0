import { fitMemory, fittingBatch, type Observation } from '../../batches/sizes/fit.js';
import { type SmallerSize, smallerMicrobatch } from '../../batches/sizes/smaller-microbatch.js';
import { defaultLoadLine } from '../../device/load-line.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Placeholder } from '../placeholders.js';
import { amount } from '../recognise/patterns.js';
import type {
  Attempt,
  ClimbedRung,
  MeasuredSize,
  OutOfMemory,
  Rung,
  RunSettings,
} from '../types.js';

/** What the ladder knows when an attempt ran out of memory. */
export interface RecoveryInput {
  readonly settings: RunSettings;
  readonly outOfMemory: OutOfMemory;
  readonly peakBytes: Known<number>;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  readonly earlier: readonly Attempt[];
  /** What the process measured of smaller sizes after it had failed, before it ended. */
  readonly measured: readonly MeasuredSize[];
  /** What the program can be told when it is started anew. */
  readonly declared: ReadonlySet<Placeholder>;
  /** The batch that the person asked for, before anything was changed. */
  readonly batch: Known<number>;
  /** Whether the program saved its state since it started. */
  readonly savedProgress: boolean;
  /** Whether its memory can give way, by what the SDK in it says, and may. */
  readonly canSpill: boolean;
}

export interface NextAttempt {
  readonly rung: Rung;
  readonly why: string;
  readonly settings: RunSettings;
}

/** Each of them made steps; a run that needs more has another fault. */
const maxRestarts = 100;

type Step = (input: RecoveryInput) => Omit<NextAttempt, 'rung'> | undefined;

/** In the order in which they are tried; each answers whether it can be climbed from here. */
const steps: readonly (readonly [Rung, Step])[] = [
  ['spill', stepSpill],
  ['smaller-microbatch', stepSmaller],
  ['checkpointing', stepCheckpointing],
  ['lower-precision', stepPrecision],
  ['cpu-offload', stepOffload],
  ['restart-from-checkpoint', stepRestart],
  ['host', stepHost],
];

/**
 * The next attempt after one that ran out of memory, by the first rung that the program declared
 * and that has not been used up; undefined where there is none left.
 *
 * @example
 * climb(input)?.settings.batch_size; // 8, with accumulation 4
 */
export function climb(input: RecoveryInput): NextAttempt | undefined {
  for (const [rung, step] of steps) {
    const next = step(input);
    if (next !== undefined) return { rung, ...withSegments(input, next) };
  }
  return undefined;
}

/** What was free in pieces would have been enough: from now on such pieces are put together. */
function withSegments(input: RecoveryInput, next: Omit<NextAttempt, 'rung'>) {
  const { settings } = next;
  if (settings.device === 'host' || !fragmented(input.outOfMemory)) return next;
  return {
    why: `${next.why} Enough was free in unused pieces, so PyTorch gets expandable segments.`,
    settings: { ...settings, expandable_segments: true },
  };
}

/** As often as more room is kept free: a request that fails with all of it free is too large. */
const maxSpills = 2;

/** The same program with the same batch; what autograd keeps waits on the host, or is computed again. */
function stepSpill({ settings, outOfMemory, earlier, canSpill }: RecoveryInput) {
  const asked = isKnown(outOfMemory.askedBytes) ? outOfMemory.askedBytes : 0;
  const before = settings.spill_headroom_bytes;
  const spilled = earlier.filter((one) => one.rungs.some(({ rung }) => rung === 'spill'));
  if (!canSpill || spilled.length >= maxSpills) return undefined;
  // The second time only where the request was larger than what was kept free for it.
  if (before !== undefined && asked <= before) return undefined;
  const room =
    asked > 0 ? `, with ${formatBytes(asked)} kept free for the request that failed` : '';
  return {
    why: `Its memory can give way: it is started again with spilling${room}. The batch stays as it is.`,
    settings: { ...settings, spill_headroom_bytes: asked },
  };
}

function stepSmaller(input: RecoveryInput): Omit<NextAttempt, 'rung'> | undefined {
  const { settings, batch } = input;
  if (!isKnown(batch) || !isKnown(settings.batch_size)) return undefined;
  const smaller = smallerSize(input, settings.batch_size);
  if (smaller === undefined) return undefined;
  const { microbatch, accumulation, effective } = splitBatch(batch, smaller.most);
  const same =
    effective === batch
      ? `the effective batch stays ${batch}`
      : `the effective batch becomes ${effective}, because ${batch} has no divisor near`;
  const batchWords = input.declared.has('accumulation')
    ? same
    : `${same} only if the program reads PLIMSOLL_ACCUMULATION, else it is ${microbatch}: the command has no {accumulation}, and no option for it that is known`;
  return {
    why: `${smaller.why}; now ${microbatch} x ${accumulation}: ${batchWords}.`,
    settings: { ...settings, batch_size: microbatch, accumulation },
  };
}

/** By what the failed process measured; once that has failed, too, at most by half. */
function smallerSize(input: RecoveryInput, microbatch: number): SmallerSize | undefined {
  const earlier = comparable(input);
  const byMeasure = fitsByMeasure(microbatch, input.measured, input.limitBytes);
  const isFirst = !earlier.some(({ isAtLeast }) => isAtLeast);
  if (byMeasure !== undefined && (isFirst || byMeasure.most * 2 <= microbatch)) return byMeasure;
  return smallerMicrobatch({
    microbatch,
    peakBytes: input.peakBytes,
    heldBytes: heldAtFailure(input.outOfMemory),
    askedBytes: input.outOfMemory.askedBytes,
    limitBytes: input.limitBytes,
    baseBytes: input.baseBytes,
    earlier,
  });
}

function stepCheckpointing({ settings, declared }: RecoveryInput) {
  if (!declared.has('checkpointing') || settings.checkpointing) return undefined;
  return {
    why: 'The batch cannot be smaller; activations are recomputed instead of kept.',
    settings: { ...settings, checkpointing: true },
  };
}

function stepPrecision({ settings, declared }: RecoveryInput) {
  if (!declared.has('precision') || settings.precision !== 'fp32') return undefined;
  return {
    why: 'Activations in half the bytes: fp32 becomes bf16.',
    settings: { ...settings, precision: 'bf16' },
  };
}

function stepOffload({ settings, declared }: RecoveryInput) {
  if (!declared.has('offload') || settings.offload) return undefined;
  return {
    why: 'What is not needed at the moment is kept on the host.',
    settings: { ...settings, offload: true },
  };
}

/**
 * Only after progress: without it the same end would come the same way. As long as each restart makes
 * some, it goes on: a program that leaks ends that way. The bound is for one whose checkpoints do not
 * advance.
 */
function stepRestart({ settings, declared, savedProgress, earlier }: RecoveryInput) {
  const restarts = earlier.filter(wasRestarted).length;
  if (!declared.has('attempt') || !savedProgress || restarts >= maxRestarts) return undefined;
  return {
    why: 'It had run for a while before memory ran out: a fresh process goes on from its last checkpoint.',
    settings,
  };
}

/** Whether a fresh process went on from a checkpoint after this attempt. */
export function wasRestarted({ rungs }: Pick<Attempt, 'rungs'>): boolean {
  return rungs.some(({ rung }) => rung === 'restart-from-checkpoint');
}

function stepHost({ settings, declared }: RecoveryInput) {
  if (!declared.has('device') || settings.device === 'host') return undefined;
  return {
    why: `${settings.device} has too little memory for it: it runs on the host, slower.`,
    settings: { ...settings, device: 'host' },
  };
}

/** Sizes measured earlier tell of this one only where all else was the same. */
function comparable({ earlier, settings }: RecoveryInput): readonly Observation[] {
  return earlier.flatMap((attempt) => {
    const { batch_size: batch, checkpointing, precision, offload, device } = attempt.settings;
    const alike =
      attempt.settings.spill_headroom_bytes === settings.spill_headroom_bytes &&
      checkpointing === settings.checkpointing &&
      precision === settings.precision &&
      offload === settings.offload &&
      device === settings.device;
    if (!alike || !isKnown(batch) || !isKnown(attempt.peakBytes)) return [];
    const isAtLeast = attempt.outOfMemory !== null;
    return [{ batch, peakBytes: attempt.peakBytes, isAtLeast }];
  });
}

/**
 * Seconds into the attempt, after all that an earlier supervisor wrote: its seconds began before the
 * job's first process, those of the next begin with it.
 */
export function notBefore(atSeconds: number, earlier: readonly ClimbedRung[]): number {
  return Math.max(0, atSeconds, earlier.at(-1)?.atSeconds ?? 0);
}

/** As it stands in the report. */
export function climbed(
  { rung, why }: Pick<ClimbedRung, 'rung' | 'why'>,
  atSeconds: number,
): ClimbedRung {
  return { rung, why, atSeconds: Math.round(atSeconds * 1000) / 1000 };
}

/** PyTorch says how much of what it reserved no tensor uses. */
const unused = /(\d[\d.]* ?[KMGT]?i?B) is reserved by PyTorch but unallocated/;

/** And how much tensors use. */
const used = /(\d[\d.]* ?[KMGT]?i?B) is allocated by PyTorch/;

/**
 * What tensors took when the request failed, by PyTorch's message: the peak may be of an earlier time.
 *
 * @example
 * heldAtFailure({ message: 'Of the allocated memory 3.00 GiB is allocated by PyTorch', ... }); // 3221225472
 */
export function heldAtFailure({ message }: Pick<OutOfMemory, 'message'>): Known<number> {
  return amount(used.exec(message)?.[1]);
}

/**
 * Whether enough was free, in pieces too small for the request: segments that grow in place put
 * such pieces together.
 *
 * @example
 * fragmented({ askedBytes: 2 ** 20, message: '... 3.00 GiB is reserved by PyTorch but unallocated', ... }); // true
 */
function fragmented({ askedBytes, message }: OutOfMemory): boolean {
  const free = amount(unused.exec(message)?.[1]);
  return isKnown(askedBytes) && isKnown(free) && askedBytes > 0 && free >= askedBytes;
}

/** A batch as microbatches of equal size. */
interface SplitBatch {
  readonly microbatch: number;
  readonly accumulation: number;
  /** What they make together, when that is not the batch that was asked for. */
  readonly effective: number;
}

/**
 * The largest microbatch up to `most` that keeps the effective batch: exactly where a divisor lies
 * near, else with as few samples more as can be.
 *
 * @example
 * splitBatch(32, 14); // { microbatch: 8, accumulation: 4, effective: 32 }
 * splitBatch(127, 60); // { microbatch: 43, accumulation: 3, effective: 129 }
 */
export function splitBatch(batch: number, most: number): SplitBatch {
  const limit = Math.max(1, Math.min(batch, Math.floor(most)));
  // Below half of what fits, exactness would cost too much speed.
  for (let microbatch = limit; microbatch * 2 > limit; microbatch--) {
    if (batch % microbatch === 0) {
      return { microbatch, accumulation: batch / microbatch, effective: batch };
    }
  }
  const accumulation = Math.ceil(batch / limit);
  const microbatch = Math.ceil(batch / accumulation);
  return { microbatch, accumulation, effective: microbatch * accumulation };
}

/** A size whose step was made needs less room to spare than one that a line foretells. */
const madeLine = 0.95;

/**
 * How large a batch may be, by steps of a few samples that the failed process made before it ended: by
 * the line through its two largest, since the peak of the smallest may be a temporary tensor that all
 * sizes have; or one of these sizes itself, where it leaves a twentieth of the limit. Undefined where
 * they tell nothing, or say that the batch that failed fits: then they are refuted.
 *
 * @example
 * fitsByMeasure(12, [{ microbatch: 1, peakBytes: 3 * GiB }, { microbatch: 2, peakBytes: 4 * GiB }], 5 * GiB)?.most; // 2
 */
export function fitsByMeasure(
  failed: number,
  sizes: readonly MeasuredSize[],
  limitBytes: Known<number>,
): SmallerSize | undefined {
  if (failed <= 1 || sizes.length < 2 || !isKnown(limitBytes)) return undefined;
  const largest = sizes.toSorted((a, b) => a.microbatch - b.microbatch).slice(-2);
  const line = fitMemory(
    largest.map(({ microbatch, peakBytes }) => ({
      batch: microbatch,
      peakBytes,
      isAtLeast: false,
    })),
  );
  if (line?.from !== 'two sizes') return undefined;
  const made = largest.findLast(
    ({ microbatch, peakBytes }) => microbatch < failed && peakBytes <= limitBytes * madeLine,
  );
  const foretold = fittingBatch(line, limitBytes * defaultLoadLine);
  const [fits, budget] =
    made !== undefined && made.microbatch > foretold
      ? [made.microbatch, limitBytes * madeLine]
      : [foretold, limitBytes * defaultLoadLine];
  if (fits >= failed) return undefined;
  const most = Math.max(1, fits);
  const found = fits < 1 ? 'not even one fits' : `${fits} fit`;
  return {
    most,
    why: `${failed} did not fit; measured after it failed: ${bytes(line.baseBytes)} and ${bytes(line.perSampleBytes)} a sample, so ${found} under ${bytes(budget)}`,
  };
}

function bytes(value: number): string {
  return formatBytes(Math.round(value));
}
