import { callWording } from '../../estimate/wording.js';
import { Failure } from '../../failure.js';
import { formatBytes } from '../../units/bytes.js';
import { configurationsToTry, configurationsWithin } from './configurations.js';
import { type EstimateBook, openEstimateBook } from './estimate-book.js';
import { fitOf, sureBytes } from './fit.js';
import { largestBatch, roughGuess } from './largest-batch.js';
import { largestMicrobatch, partsOf } from './microbatch.js';
import { byWorth, costOf, type EvaluatedConfiguration, optionOf, type Scale } from './options.js';
import {
  type Configuration,
  concessions,
  type Plan,
  type PlanEstimators,
  type PlanFacts,
  type PlanOption,
  type PlanWishes,
  type PlanWording,
} from './types.js';

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
  const possible = (wishes.mayChange ? configurationsWithin : configurationsToTry)(
    wishes,
    facts,
    wording,
  ).filter((one) => facts.isShown?.(one) !== true);
  const configurations = inOrder(possible, perGpu, { mode, facts, unit: 1 });
  const [plain] = configurations;
  if (plain === undefined) throw new Error('there is always a configuration to run');
  const unit = costOf(plain, perGpu, 1, { mode, facts, unit: 1 });
  const scale = { mode, facts, unit };
  const book = openEstimateBook(estimators, wishes, facts);
  const { chosen, considered } = await chooseConfiguration(
    configurations,
    perGpu,
    book,
    wishes,
    scale,
  );
  const taken =
    chosen ?? (await nearest(considered, configurations, leastBatch(wishes, perGpu), book, facts));
  const grown = wishes.batch === undefined ? await grow(taken, perGpu, book, facts) : taken;
  // Who can be told only this or that has no use for other ways, and each takes an estimate.
  const others = wishes.mayChange
    ? []
    : await otherOptions(grown, considered, configurations, book, scale);
  const { method: _, peak: _peak, estimate, ...answer } = optionOf(grown, scale);
  const left = wishes.mayChange ? 0 : configurations.length - others.length - 1;
  const assumed = wishes.batch === undefined ? [assumedBatch(mode, wording)] : [];
  return {
    ...answer,
    estimate,
    alternatives: others.toSorted(byWorth),
    notes: notesOf(grown, assumed, facts, book, left),
  };
}

/** By what is given up, then by cost. */
function inOrder(
  configurations: readonly Configuration[],
  batch: number,
  scale: Scale,
): Configuration[] {
  return configurations.toSorted(
    (one, other) =>
      level(one) - level(other) || costOf(one, batch, 1, scale) - costOf(other, batch, 1, scale),
  );
}

function level({ concession }: Configuration): number {
  return concessions.indexOf(concession);
}

/** A configuration that is slower even with its whole batch at once than one that fits need not be tried. */
async function chooseConfiguration(
  configurations: readonly Configuration[],
  perGpu: number,
  book: EstimateBook,
  wishes: PlanWishes,
  scale: Scale,
): Promise<{ chosen: EvaluatedConfiguration | undefined; considered: EvaluatedConfiguration[] }> {
  const considered: EvaluatedConfiguration[] = [];
  let chosen: EvaluatedConfiguration | undefined;
  const cost = ({ configuration, batch, accumulation }: EvaluatedConfiguration) =>
    costOf(configuration, batch, accumulation, scale);
  for (const configuration of configurations) {
    if (chosen && configuration.concession !== chosen.configuration.concession) break;
    if (chosen && costOf(configuration, perGpu, 1, scale) >= cost(chosen)) break;
    const evaluated = await largestMicrobatch(configuration, perGpu, book, wishes, scale.facts);
    if (evaluated === undefined) continue;
    considered.push(evaluated);
    const fits = fitOf(evaluated.needs.estimate, scale.facts.capacityBytes) === 'surely';
    if (fits && (chosen === undefined || cost(evaluated) < cost(chosen))) chosen = evaluated;
  }
  return { chosen, considered };
}

/** Nothing surely fits: the best that may, or else what needs least. */
async function nearest(
  considered: EvaluatedConfiguration[],
  configurations: readonly Configuration[],
  { batch, accumulation }: { readonly batch: number; readonly accumulation: number },
  book: EstimateBook,
  facts: PlanFacts,
): Promise<EvaluatedConfiguration> {
  const may = considered.find(({ needs }) => fitOf(needs.estimate, facts.capacityBytes) !== 'no');
  if (may) return may;
  if (considered.length === 0) {
    // The states alone were too large everywhere: estimate the last configuration, which needs the least.
    for (const configuration of configurations.toReversed()) {
      const needs =
        (await book.roughly(configuration, batch)) ?? (await book.attempt(configuration, batch));
      if (needs) considered.push({ configuration, batch, accumulation, needs });
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

/** No batch was asked for, so it takes what room there is. */
async function grow(
  chosen: EvaluatedConfiguration,
  perGpu: number,
  book: EstimateBook,
  facts: PlanFacts,
): Promise<EvaluatedConfiguration> {
  const { configuration, needs } = chosen;
  const surely = fitOf(needs.estimate, facts.capacityBytes) === 'surely';
  // Layers go to the host so that it just fits: there is no room left to grow into.
  if (!surely || chosen.batch < perGpu || configuration.offload === 'weights') return chosen;
  const bytesOf = async (batch: number) => {
    const estimate = (await book.attempt(configuration, batch))?.estimate;
    return estimate === undefined ? Number.POSITIVE_INFINITY : sureBytes(estimate);
  };
  const guess = (await roughGuess(configuration, book, facts.capacityBytes)) ?? perGpu * 2;
  const { batch } = await largestBatch({ bytesOf, budgetBytes: facts.capacityBytes, guess });
  const larger = batch > chosen.batch ? await book.attempt(configuration, batch) : undefined;
  return larger === undefined ? chosen : { configuration, batch, accumulation: 1, needs: larger };
}

/** Returns the samples of one GPU before each step; each GPU takes as many. */
export function batchOfOneGpu(
  { batch, mode }: PlanWishes,
  { gpus }: PlanFacts,
  { name }: PlanWording,
): number {
  if (batch === undefined) return defaultBatch[mode];
  if (batch % gpus === 0) return batch / gpus;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `A batch of ${batch} cannot be split evenly over ${gpus} GPUs.`,
    next: `Use a ${name('batch')} that is a multiple of ${gpus}.`,
  });
}

/** The smallest part that its batch may be split into. */
function leastBatch(wishes: PlanWishes, perGpu: number) {
  const [batch = perGpu] = partsOf(perGpu, wishes);
  return { batch, accumulation: perGpu / batch };
}

export function assumedBatch(mode: PlanWishes['mode'], { name }: PlanWording): string {
  return `No ${name('batch')} was given: settings were chosen for ${defaultBatch[mode]}, and the batch then took what room there is.`;
}

function notesOf(
  chosen: EvaluatedConfiguration,
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
      ? [
          `${left} more configurations were left out: too large by their states alone, slower, or not needed.`,
        ]
      : []),
    ...book.refusals.map((fact) => `One configuration could not be estimated: ${fact}`),
  ];
}

function nothingEstimated({ refusals }: EstimateBook): Failure {
  return new Failure({
    kind: 'input',
    code: 'nothing-estimated',
    fact: `No configuration to run it could be estimated. ${refusals.join(' ')}`.trim(),
    next: 'Fix fewer settings, or try plimsoll estimate.',
  });
}

/** How many configurations are estimated only to be shown beside the chosen one; each may take seconds. */
const maxJudged = 3;
/** As many as a person reads. */
const maxShown = 12;

/**
 * Returns the other options: all those considered, and the configurations nearest to the chosen
 * one, with its batch.
 */
async function otherOptions(
  chosen: EvaluatedConfiguration,
  considered: readonly EvaluatedConfiguration[],
  configurations: readonly Configuration[],
  book: EstimateBook,
  scale: Scale,
): Promise<PlanOption[]> {
  const others = considered.filter(({ configuration }) => configuration !== chosen.configuration);
  const seen = new Set(considered.map(({ configuration }) => configuration)).add(
    chosen.configuration,
  );
  const near = configurations
    .filter((configuration) => !seen.has(configuration))
    .toSorted(
      (one, other) =>
        difference(one, chosen.configuration) - difference(other, chosen.configuration),
    );
  let judged = 0;
  for (const configuration of near) {
    if (others.length >= maxShown) break;
    const { batch, accumulation } = chosen;
    let needs = await book.roughly(configuration, batch);
    if (
      needs === undefined &&
      judged < maxJudged &&
      difference(configuration, chosen.configuration) === 1
    ) {
      judged += 1;
      needs = await book.attempt(configuration, batch);
    }
    // With room for all layers it is a slower name for the same thing.
    const idle = configuration.offload === 'weights' && needs?.hostBytes === 0;
    if (needs && !idle) others.push({ configuration, batch, accumulation, needs });
  }
  return others.map((evaluated) => {
    const { estimate: _, ...option } = optionOf(evaluated, scale);
    return option;
  });
}

/** How many settings differ; adapters come with their own precision and optimizer. */
function difference(one: Configuration, other: Configuration): number {
  const pairs =
    one.loraRank === other.loraRank
      ? [
          [one.precision, other.precision],
          [one.optimizer, other.optimizer],
          [one.quantization, other.quantization],
        ]
      : [[one.loraRank, other.loraRank]];
  return [
    ...pairs,
    [one.checkpointing, other.checkpointing],
    [one.offload, other.offload],
    [one.zero, other.zero],
  ].filter(([a, b]) => a !== b).length;
}
