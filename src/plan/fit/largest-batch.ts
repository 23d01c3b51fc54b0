import type { EstimateBook } from './estimate-book.js';
import type { Configuration } from './types.js';

/** The largest batch that is looked at: more samples than any step of any job takes. */
const maxBatch = 2 ** 20;
/** First guess if nothing is known of a job. */
const firstGuess = 8;
/** A job's peak is nearly a line over the batch, so a handful is mostly enough; this ends what is not. */
const maxEstimates = 40;
/** A line that has not led there by then does not: what is left is halved. */
const maxGuesses = 5;
/** How far a guess may go beyond what was tried. */
const farthest = 8;
/** An estimate may miss something that grows with the batch: room for this share more of it. */
const spareShare = 0.01;
/** The spare room is not worth a larger share of the batch than this. */
const maxGivenUp = 0.03;

export interface BatchSearch {
  /** The bytes that a batch needs. Taken to grow with the batch. */
  readonly bytesOf: (batch: number) => Promise<number>;
  readonly budgetBytes: number;
  /** A first guess; the better it is, the fewer batches are tried. */
  readonly guess?: number | undefined;
}

export interface LargestBatch {
  /** 0 where not even one sample fits. */
  readonly batch: number;
  /** Less than the spare room is left, as it would cost too much of the batch. */
  readonly tight: boolean;
}

interface Tried {
  readonly batch: number;
  readonly bytes: number;
}

/**
 * The largest batch that fits. Each try costs an estimate, so the next one is where the line through
 * the last two meets the budget.
 *
 * @example
 * await largestBatch({ bytesOf: async (batch) => 10 + 3 * batch, budgetBytes: 99 });
 * // { batch: 29, tight: false }
 */
export async function largestBatch(search: BatchSearch): Promise<LargestBatch> {
  const { bytesOf, budgetBytes, guess = firstGuess } = search;
  const tried: Tried[] = [];
  let fits = 0;
  let fails = maxBatch + 1;
  let batch = stepBelow(Math.min(Math.max(1, guess), maxBatch));
  while (nextStep(fits) < fails && tried.length < maxEstimates) {
    const bytes = await bytesOf(batch);
    tried.push({ batch, bytes });
    if (bytes <= budgetBytes) fits = batch;
    else fails = batch;
    const straight = tried.length < maxGuesses || fits === 0 || fails > maxBatch;
    const guessed = straight ? nextGuess(tried, budgetBytes) : (fits + fails) / 2;
    batch = between(fits, fails, guessed);
  }
  if (fits === 0) return { batch: 0, tight: false };
  return withSpare(fits, tried, budgetBytes, bytesOf);
}

/** The guess where it can be right; the middle of what is left where it cannot. */
function between(fits: number, fails: number, guess: number): number {
  const wrong = fails <= maxBatch && guess >= fails + 1;
  const wanted = stepBelow(wrong ? (fits + fails) / 2 : guess);
  return Math.max(nextStep(fits), Math.min(previousStep(fails), wanted));
}

/** Returns where the line through the two tries nearest to the budget meets it. */
function nextGuess(tried: readonly Tried[], budgetBytes: number): number {
  const distance = ({ bytes }: Tried) => Math.abs(bytes - budgetBytes);
  // The latest first: where a job's states hide its batch, all tries are equally near.
  const [near, other] = tried.toReversed().toSorted((one, two) => distance(one) - distance(two));
  if (near === undefined) return firstGuess;
  const slope = other === undefined ? 0 : (near.bytes - other.bytes) / (near.batch - other.batch);
  if (slope > 0) {
    const largest = Math.max(...tried.map(({ batch }) => batch));
    return Math.min(largest * farthest, near.batch + (budgetBytes - near.bytes) / slope);
  }
  const ratio = budgetBytes / Math.max(1, near.bytes);
  // Two that need the same: states hide the batch, and one that shows is far away.
  if (other !== undefined) return near.batch * (ratio >= 1 ? 4 : 0.25);
  // One try tells no line: a step that is large where the budget is far away.
  if (ratio >= 1) return near.batch * Math.min(ratio > 4 ? 4 : 2, 1 + 3 * (ratio - 1));
  return near.batch * Math.max(0.25, 1 - 3 * (1 - ratio));
}

async function withSpare(
  batch: number,
  tried: readonly Tried[],
  budgetBytes: number,
  bytesOf: BatchSearch['bytesOf'],
): Promise<LargestBatch> {
  const here = tried.find((one) => one.batch === batch);
  const bytes = here?.bytes ?? (await bytesOf(batch));
  const spare = spareShare * batch * slopeAt(batch, tried);
  if (bytes + spare <= budgetBytes) return { batch, tight: false };
  const less = previousStep(batch);
  const affordable = less >= batch * (1 - maxGivenUp);
  if (affordable && (await bytesOf(less)) <= budgetBytes) return { batch: less, tight: false };
  return { batch, tight: true };
}

/** Bytes that one more sample takes. */
function slopeAt(batch: number, tried: readonly Tried[]): number {
  const here = tried.find((one) => one.batch === batch);
  const [other] = tried
    .filter((one) => one.batch !== batch)
    .toSorted((one, two) => Math.abs(one.batch - batch) - Math.abs(two.batch - batch));
  if (here === undefined || other === undefined) return 0;
  return Math.max(0, (here.bytes - other.bytes) / (here.batch - other.batch));
}

/**
 * Batches are not told more exactly than 2 %: an estimate is not better than that, and round
 * batches run better than odd ones.
 */
const finest = 50;

/**
 * By how much batches of this size differ: the largest power of two that is at most 2 % of it.
 *
 * @example
 * batchStep(32); // 1
 * batchStep(200); // 4
 */
export function batchStep(batch: number): number {
  return batch < finest * 2 ? 1 : 2 ** Math.floor(Math.log2(batch / finest));
}

/** The largest batch on a step that is not above this one. */
export function stepBelow(batch: number): number {
  const whole = Math.floor(batch);
  return whole - (whole % batchStep(whole));
}

/** The next larger batch on a step. */
export function nextStep(batch: number): number {
  return stepBelow(batch) + batchStep(batch);
}

/** The next smaller batch on a step; 0 below 1. */
export function previousStep(batch: number): number {
  return stepBelow(batch - 1);
}

/** The largest batch by the guide alone; undefined where it knows nothing of this configuration. */
export async function roughGuess(
  configuration: Configuration,
  book: EstimateBook,
  budgetBytes: number,
): Promise<number | undefined> {
  let known = true;
  const bytesOf = async (batch: number) => {
    const rough = await book.roughly(configuration, batch);
    if (rough === undefined) known = false;
    return rough?.estimate.peak.leastCapacityBytes ?? Number.POSITIVE_INFINITY;
  };
  await bytesOf(1);
  if (!known) return undefined;
  const { batch } = await largestBatch({ bytesOf, budgetBytes });
  return known ? Math.max(1, batch) : undefined;
}
