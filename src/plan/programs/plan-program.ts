import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import type { PlanBudget } from '../answers/plan-request.js';
import { fitOf, sureBytes } from '../fit/fit.js';
import { nextStep, stepBelow } from '../fit/largest-batch.js';
import { divisorsOf } from '../fit/microbatch.js';
import type { PlanOption, PlanSettings } from '../fit/types.js';

/** The first batch to try if none is stated. */
const firstBatch = 8;

/** The batch of a program; whatever else it sets is its own, and not known here. */
export type ProgramSettings = {
  readonly [Name in keyof PlanSettings]: Name extends 'batch' | 'accumulation' | 'gpus'
    ? number
    : 'unknown';
};

export interface ProgramOption
  extends Omit<PlanOption, 'settings' | 'hostBytes' | 'relativeCost' | 'concession' | 'givesUp'> {
  readonly settings: ProgramSettings;
}

/** As a plan of a model, for a program that was traced. */
export interface ProgramPlan extends Omit<ProgramOption, 'method' | 'peak'> {
  readonly estimate: Estimate;
  /** The program with these settings, as it is to be run. */
  readonly command: readonly string[];
  readonly alternatives: readonly ProgramOption[];
  readonly budget: PlanBudget;
  readonly notes: readonly string[];
}

export interface ProgramWishes {
  /** The samples of a step, which are kept: accumulation makes up for a smaller batch. */
  readonly effectiveBatch?: number | undefined;
  readonly budget: PlanBudget;
  /** The command with its places filled. */
  readonly commandFor: (batch: number, accumulation: number) => readonly string[];
  /** Traces the program with such a batch. */
  readonly trace: (batch: number, accumulation: number) => Promise<TracedProgram>;
}

export interface TracedProgram {
  readonly estimate: Estimate;
  /** The same for two traces that ask for the very same, in the same order. */
  readonly requests: string;
}

/**
 * The largest batch of a program that surely fits, or the largest part of a batch that accumulation
 * makes up for, found by tracing the program at a few sizes.
 *
 * @example
 * const plan = await planProgram({ budget, commandFor, trace });
 * plan.command; // ['python', 'train.py', '--batch-size', '96']
 */
export async function planProgram(wishes: ProgramWishes): Promise<ProgramPlan> {
  const { effectiveBatch, budget, trace } = wishes;
  const accumulationOf = (batch: number) =>
    effectiveBatch === undefined ? 1 : effectiveBatch / batch;
  const tried = new Map<number, TracedProgram>();
  const failed: string[] = [];
  const bytesOf = async (batch: number) => {
    try {
      const traced = await trace(batch, accumulationOf(batch));
      tried.set(batch, traced);
      return sureBytes(traced.estimate);
    } catch (error) {
      // A larger batch than its data, or than its own limit: what ran before stands.
      if (tried.size === 0 || !isOfProgram(error)) throw error;
      failed.push(`Batch ${batch} could not be traced: ${error.fact}`);
      return undefined;
    }
  };
  const choices = effectiveBatch === undefined ? anyBatch : partsOf(effectiveBatch);
  const { batch, flat, sameAs } = await batchByTraces({
    bytesOf,
    alike: (one, other) => tried.get(one)?.requests === tried.get(other)?.requests,
    budgetBytes: budget.memoryBytes,
    choices,
  });
  const options = [...tried]
    .toSorted(([one], [other]) => one - other)
    .map(([size, { estimate }]) => optionOf(size, accumulationOf(size), estimate, budget));
  const found = options.find(({ settings }) => settings.batch === batch) ?? options[0];
  const estimate = found && tried.get(found.settings.batch)?.estimate;
  if (found === undefined || estimate === undefined) throw new Error('nothing was traced');
  const { settings, fits, surely } = found;
  return {
    fits,
    settings,
    estimate,
    alternatives: options.filter((one) => one !== found),
    surely,
    command: wishes.commandFor(settings.batch, settings.accumulation),
    budget,
    notes: [
      ...failed,
      ...(flat ? [flatNote(settings.batch)] : []),
      ...(sameAs === undefined ? [] : [sameNote(settings.batch, sameAs)]),
    ],
  };
}

const anyBatch: BatchChoices = { first: firstBatch, atMost: stepBelow, after: nextStep };

/** Returns the exact divisors of a batch, so that the effective batch stays. */
function partsOf(effective: number): BatchChoices {
  const parts = divisorsOf(effective);
  return {
    first: effective,
    atMost: (batch) => parts.findLast((part) => part <= batch) ?? 0,
    after: (batch) => parts.find((part) => part > batch) ?? Number.POSITIVE_INFINITY,
  };
}

function isOfProgram(error: unknown): error is Failure {
  return error instanceof Failure && error.kind !== 'interrupted';
}

function optionOf(
  batch: number,
  accumulation: number,
  estimate: Estimate,
  { memoryBytes }: PlanBudget,
): ProgramOption {
  const fit = fitOf(estimate, memoryBytes);
  const { method, peak } = estimate;
  return {
    settings: programSettings(batch, accumulation),
    fits: fit !== 'no',
    surely: fit === 'surely',
    method,
    peak,
  };
}

/** Returns a program's known settings: its batch, if one was given. */
export function programSettings<Batch extends number | 'unknown'>(
  batch: Batch,
  accumulation: Batch,
) {
  return {
    batch,
    accumulation,
    checkpointing: 'unknown',
    precision: 'unknown',
    quantization: 'unknown',
    offload: 'unknown',
    optimizer: 'unknown',
    lora: 'unknown',
    gpus: 1,
    zero: 'unknown',
  } as const;
}

function flatNote(batch: number): string {
  return `Batches above this one took no more memory. The program may have fewer samples than that, or not use the batch that it is told; ${batch} is the largest that was traced.`;
}

function sameNote(batch: number, larger: number): string {
  return `With batch ${larger} the program asks for the very same as with ${batch}: it has no more samples than that, or does not use the batch that it is told. Larger ones were not tried.`;
}

/** A program whose line does not lead there by then is not one. */
const maxTraces = 12;
/** How far a guess may go beyond what was tried: a program holds its batches in the host's memory. */
const farthest = 8;
/** So many larger batches that take nothing more: the program does not have as many samples. */
const maxFlat = 3;

/** The batches that may be chosen. */
interface BatchChoices {
  readonly first: number;
  /** The largest of them that is no larger; 0 where there is none. */
  readonly atMost: (batch: number) => number;
  /** The next larger one; Infinity where there is none. */
  readonly after: (batch: number) => number;
}

interface TraceSearch {
  /** The bytes that surely are enough; undefined where the program itself fails with such a batch. */
  readonly bytesOf: (batch: number) => Promise<number | undefined>;
  /** Whether the program asked for the very same with two batches that were traced. */
  readonly alike?: ((one: number, other: number) => boolean) | undefined;
  readonly budgetBytes: number;
  readonly choices: BatchChoices;
}

interface Tried {
  readonly batch: number;
  readonly bytes: number;
}

interface FoundBatch {
  /** 0 where none fits. */
  readonly batch: number;
  /** Larger batches took no more memory. */
  readonly flat: boolean;
  /** A larger batch with which the program asked for the very same: there is nothing more to batch. */
  readonly sameAs?: number;
}

/**
 * The largest batch that fits, in few traces: two, then one where their line meets the budget. The
 * answer was always traced itself; that the next one is too large may be left to the line.
 *
 * @example
 * await batchByTraces({ bytesOf: async (batch) => 10 + 3 * batch, budgetBytes: 99, choices });
 * // { batch: 29, flat: false }
 */
export async function batchByTraces(search: TraceSearch): Promise<FoundBatch> {
  const { bytesOf, budgetBytes, choices, alike } = search;
  const tried: Tried[] = [];
  let [fits, fails, flat] = [0, Number.POSITIVE_INFINITY, 0];
  let batch = choices.first;
  for (let count = 0; count < maxTraces; count += 1) {
    const bytes = await bytesOf(batch);
    if (bytes !== undefined && bytes <= budgetBytes) fits = Math.max(fits, batch);
    else fails = Math.min(fails, batch);
    const same = tried.find((one) => one.batch < batch && alike?.(one.batch, batch));
    if (same !== undefined && fits === batch) {
      return { batch: same.batch, flat: false, sameAs: batch };
    }
    if (bytes !== undefined) {
      flat = tried.some((one) => one.batch < batch && one.bytes >= bytes) ? flat + 1 : 0;
      tried.push({ batch, bytes });
    }
    const next = choices.after(fits);
    if (next >= fails || flat === maxFlat) break;
    const slope = slopeNear(tried, budgetBytes);
    const here = tried.find((one) => one.batch === fits);
    if (here && slope > 0 && here.bytes + slope * (next - fits) > budgetBytes) break;
    const wanted = guess(tried, slope, search);
    // A line that leads beyond what failed is none: the middle of what is left.
    batch = Math.max(next, choices.atMost(wanted < fails ? wanted : (fits + fails) / 2));
  }
  return { batch: fits, flat: flat === maxFlat };
}

function guess(
  tried: readonly Tried[],
  slope: number,
  { budgetBytes, choices }: TraceSearch,
): number {
  const [near] = byDistance(tried, budgetBytes);
  if (near === undefined) return choices.first / 2;
  const largest = Math.max(...tried.map(({ batch }) => batch));
  if (slope > 0)
    return Math.min(largest * farthest, near.batch + (budgetBytes - near.bytes) / slope);
  // One trace, or a batch that its states hide: a step that a line can be drawn through.
  return near.bytes <= budgetBytes ? largest * 4 : near.batch / 4;
}

/** Bytes that one more sample takes, by the two tries nearest to the budget; 0 where unknown. */
function slopeNear(tried: readonly Tried[], budgetBytes: number): number {
  const [near, other] = byDistance(tried, budgetBytes);
  if (near === undefined || other === undefined) return 0;
  return Math.max(0, (near.bytes - other.bytes) / (near.batch - other.batch));
}

function byDistance(tried: readonly Tried[], budgetBytes: number): readonly Tried[] {
  const distance = ({ bytes }: Tried) => Math.abs(bytes - budgetBytes);
  return tried.toReversed().toSorted((one, other) => distance(one) - distance(other));
}
