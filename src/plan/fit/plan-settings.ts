import { callWording } from '../../estimate/wording.js';
import { Failure } from '../../failure.js';
import { formatBytes } from '../../units/bytes.js';
import { type EstimateBook, openEstimateBook } from './estimate-book.js';
import { fitOf, sureBytes } from './fit.js';
import { waysWithin } from './fixed-ways.js';
import { largestBatch } from './largest-batch.js';
import { largestMicrobatch, partsOf } from './microbatch.js';
import { byWorth, costOf, optionOf, type Scale, type Weighed } from './options.js';
import { otherOptions } from './other-options.js';
import { roughGuess } from './rough-guess.js';
import {
  concessions,
  type Plan,
  type PlanEstimators,
  type PlanFacts,
  type PlanWishes,
  type PlanWording,
  type Way,
} from './types.js';
import { waysToRun } from './ways.js';

/** The batch for which settings are chosen where the person named none; then it grows. */
const defaultBatch = { train: 8, infer: 1 } as const;

/**
 * The fastest settings that fit, with the least given up. Only what surely fits is taken, upper end
 * of the interval included; where nothing does, the best of what fits by the estimate alone.
 *
 * @example
 * const plan = await planSettings({ mode: 'train', sequence: 1024 }, facts, { judge });
 * plan.fits && plan.settings.batch;
 */
export async function planSettings(
  wishes: PlanWishes,
  facts: PlanFacts,
  estimators: PlanEstimators,
  wording: PlanWording = callWording,
): Promise<Plan> {
  const { mode } = wishes;
  const perGpu = batchOfOneGpu(wishes, facts, wording);
  const possible = (wishes.mayChange ? waysWithin : waysToRun)(wishes, facts, wording);
  const ways = inOrder(possible, perGpu, { mode, facts, unit: 1 });
  const [plain] = ways;
  if (plain === undefined) throw new Error('there is always a way to run');
  const unit = costOf(plain, perGpu, 1, { mode, facts, unit: 1 });
  const scale = { mode, facts, unit };
  const book = openEstimateBook(estimators, wishes, facts);
  const { chosen, considered } = await chooseWay(ways, perGpu, book, wishes, scale);
  const taken =
    chosen ?? (await nearest(considered, ways, leastBatch(wishes, perGpu), book, facts));
  const grown = wishes.batch === undefined ? await grow(taken, perGpu, book, facts) : taken;
  // Who can be told only this or that has no use for other ways, and each takes an estimate.
  const others = wishes.mayChange ? [] : await otherOptions(grown, considered, ways, book, scale);
  const { method: _, peak: _peak, estimate, ...answer } = optionOf(grown, scale);
  const left = wishes.mayChange ? 0 : ways.length - others.length - 1;
  const assumed = wishes.batch === undefined ? [assumedBatch(mode, wording)] : [];
  return {
    ...answer,
    estimate,
    alternatives: others.toSorted(byWorth),
    notes: notesOf(grown, assumed, facts, book, left),
  };
}

/** By what is given up, then by cost. */
function inOrder(ways: readonly Way[], batch: number, scale: Scale): Way[] {
  return ways.toSorted(
    (one, other) =>
      level(one) - level(other) || costOf(one, batch, 1, scale) - costOf(other, batch, 1, scale),
  );
}

function level({ concession }: Way): number {
  return concessions.indexOf(concession);
}

/** A way that is slower even with its whole batch at once than one that fits need not be tried. */
async function chooseWay(
  ways: readonly Way[],
  perGpu: number,
  book: EstimateBook,
  wishes: PlanWishes,
  scale: Scale,
): Promise<{ chosen: Weighed | undefined; considered: Weighed[] }> {
  const considered: Weighed[] = [];
  let chosen: Weighed | undefined;
  const cost = ({ way, batch, accumulation }: Weighed) => costOf(way, batch, accumulation, scale);
  for (const way of ways) {
    if (chosen && way.concession !== chosen.way.concession) break;
    if (chosen && costOf(way, perGpu, 1, scale) >= cost(chosen)) break;
    const weighed = await largestMicrobatch(way, perGpu, book, wishes, scale.facts);
    if (weighed === undefined) continue;
    considered.push(weighed);
    const fits = fitOf(weighed.needs.estimate, scale.facts.capacityBytes) === 'surely';
    if (fits && (chosen === undefined || cost(weighed) < cost(chosen))) chosen = weighed;
  }
  return { chosen, considered };
}

/** Nothing surely fits: the best that may, or else what needs least. */
async function nearest(
  considered: Weighed[],
  ways: readonly Way[],
  { batch, accumulation }: { readonly batch: number; readonly accumulation: number },
  book: EstimateBook,
  facts: PlanFacts,
): Promise<Weighed> {
  const may = considered.find(({ needs }) => fitOf(needs.estimate, facts.capacityBytes) !== 'no');
  if (may) return may;
  if (considered.length === 0) {
    // The states alone were too large everywhere: estimate the last way, which needs the least.
    for (const way of ways.toReversed()) {
      const needs = (await book.roughly(way, batch)) ?? (await book.attempt(way, batch));
      if (needs) considered.push({ way, batch, accumulation, needs });
      if (needs) break;
    }
  }
  const [least] = considered.toSorted(
    (one, other) =>
      one.needs.estimate.peak.leastCapacityBytes - other.needs.estimate.peak.leastCapacityBytes,
  );
  if (least === undefined) throw nothingEstimated(book);
  return least;
}

/** Nobody asked for a certain batch, so it takes what room there is. */
async function grow(
  chosen: Weighed,
  perGpu: number,
  book: EstimateBook,
  facts: PlanFacts,
): Promise<Weighed> {
  const { way, needs } = chosen;
  const surely = fitOf(needs.estimate, facts.capacityBytes) === 'surely';
  // Layers go to the host so that it just fits: there is no room left to grow into.
  if (!surely || chosen.batch < perGpu || way.offload === 'weights') return chosen;
  const bytesOf = async (batch: number) => {
    const estimate = (await book.attempt(way, batch))?.estimate;
    return estimate === undefined ? Number.POSITIVE_INFINITY : sureBytes(estimate);
  };
  const guess = (await roughGuess(way, book, facts.capacityBytes)) ?? perGpu * 2;
  const { batch } = await largestBatch({ bytesOf, budgetBytes: facts.capacityBytes, guess });
  const larger = batch > chosen.batch ? await book.attempt(way, batch) : undefined;
  return larger === undefined ? chosen : { way, batch, accumulation: 1, needs: larger };
}

function batchOfOneGpu(
  { batch, mode }: PlanWishes,
  { gpus }: PlanFacts,
  { name }: PlanWording,
): number {
  if (batch === undefined) return defaultBatch[mode];
  if (batch % gpus === 0) return batch / gpus;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `A batch of ${batch} cannot be shared out evenly over ${gpus} GPUs.`,
    next: `Take a ${name('batch')} that ${gpus} divides.`,
  });
}

/** The smallest part that its batch may be split into. */
function leastBatch(wishes: PlanWishes, perGpu: number) {
  const [batch = perGpu] = partsOf(perGpu, wishes);
  return { batch, accumulation: perGpu / batch };
}

function assumedBatch(mode: PlanWishes['mode'], { name }: PlanWording): string {
  return `No ${name('batch')} was given: settings were chosen for ${defaultBatch[mode]}, and the batch then took what room there is.`;
}

function notesOf(
  chosen: Weighed,
  assumed: readonly string[],
  { capacityBytes }: PlanFacts,
  book: EstimateBook,
  left: number,
): string[] {
  const { estimate, hostBytes } = chosen.needs;
  const fit = fitOf(estimate, capacityBytes);
  return [
    ...(fit === 'tightly'
      ? [
          `It fits by the estimate, but not by the upper end of its interval, which needs ${formatBytes(sureBytes(estimate) - capacityBytes)} more.`,
        ]
      : []),
    ...assumed,
    ...(hostBytes > 0 ? [`It needs ${formatBytes(hostBytes)} of the host's memory.`] : []),
    ...(left > 0
      ? [`${left} more ways were left out: too large by their states alone, slower, or not needed.`]
      : []),
    ...book.refusals.map((fact) => `One way could not be estimated: ${fact}`),
  ];
}

function nothingEstimated({ refusals }: EstimateBook): Failure {
  return new Failure({
    kind: 'input',
    code: 'nothing-estimated',
    fact: `No way to run it could be estimated. ${refusals.join(' ')}`.trim(),
    next: 'Fix fewer settings, or try plimsoll estimate.',
  });
}
