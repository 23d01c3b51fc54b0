import { assembleEstimate } from '../../src/estimate/assemble.js';
import type { Gpu } from '../../src/estimate/cards/gpu-table.js';
import { type Parallel, type ParallelMethod, ranksOf } from '../../src/estimate/parallel.js';
import type { Estimate, Part, Precision } from '../../src/estimate/types.js';
import type { KnownModel } from '../../src/model/types.js';

export interface Spread {
  /** On one card, as asked. */
  readonly estimate: Estimate;
  /** The parts where the backward pass holds the most activations. */
  readonly backward: ReadonlyMap<Part, number>;
  readonly model: KnownModel;
  readonly precision: Precision;
  readonly spread: Parallel;
  readonly gpu: Gpu;
}

/** Parts that each way cuts over the ranks. */
const cut: Readonly<Record<ParallelMethod, readonly Part[]>> = {
  ddp: [],
  zero1: ['optimizer'],
  zero2: ['optimizer', 'gradients'],
  zero3: ['optimizer', 'gradients', 'weights'],
  fsdp1: ['optimizer', 'gradients', 'weights'],
  fsdp2: ['optimizer', 'gradients', 'weights'],
  hsdp: ['optimizer', 'gradients', 'weights'],
  tp: ['optimizer', 'gradients', 'weights', 'activations'],
};

/** Gathered groups of parameters have streams of their own, so that much lies unused between them. */
const unusedShare = 0.2;
const lowShare = 0.25;
const highShare = 0.45;

/**
 * The memory of one rank of many, by a rule: the parts of the estimate for one card, cut as the way cuts
 * them, with the parameters that are gathered and the buckets on top. Nothing of it is traced.
 *
 * @example
 * overGpus({ estimate, backward, model, precision, spread: { way: 'fsdp2', gpus: 8 }, gpu }).ranks?.count; // 8
 */
export function overGpus(asked: Spread): Estimate {
  const { estimate, backward: kept, model, precision, spread, gpu } = asked;
  const { shards, tensorParallel } = ranksOf(spread);
  const ways =
    spread.way === 'tp' ? tensorParallel : spread.way.startsWith('zero') ? spread.gpus : shards;
  const pieces = new Set<Part>(cut[spread.way]);
  const share = (part: Part, bytes: number) => (pieces.has(part) ? Math.ceil(bytes / ways) : bytes);
  const of = (part: Part) => estimate.breakdown.find((entry) => entry.part === part)?.bytes ?? 0;
  const wide = precision === 'fp32' || precision.startsWith('amp-') ? 4 : 2;
  const states = {
    weights: share('weights', of('weights')),
    optimizer: share('optimizer', of('optimizer')),
  };
  const gradients = model.trainableParameters * wide;
  const gathers = pieces.has('weights') && spread.way !== 'tp';
  const { layer, rest } = groupsOf(model);
  const gatheredBytes = gathers ? (rest + 2 * layer) * (precision === 'fp32' ? 4 : 2) : 0;
  const reduceBytes = gathers ? Math.max(layer, rest) * wide : 0;
  const buckets = spread.way === 'ddp' || spread.way === 'zero2' ? gradients : 0;
  const backward = new Map<Part, number>([
    ['weights', states.weights],
    ['optimizer', states.optimizer],
    ['gradients', share('gradients', kept.get('gradients') ?? 0)],
    ['activations', share('activations', kept.get('activations') ?? 0)],
    ['temporary', kept.get('temporary') ?? 0],
    ['workspace', kept.get('workspace') ?? 0],
    ['gathered', gatheredBytes],
    ['reduce', reduceBytes],
    ['buckets', buckets],
  ]);
  const step = new Map<Part, number>([
    ['weights', states.weights],
    ['optimizer', states.optimizer],
    ['gradients', share('gradients', gradients)],
    // The update of all parameters at once, where the state is cut as well.
    ['temporary', pieces.has('optimizer') ? Math.ceil(gradients / ways) : gradients],
    ['workspace', kept.get('workspace') ?? 0],
    ['buckets', buckets],
  ]);
  const live = sum(backward) >= sum(step) ? backward : step;
  const allocatedBytes = sum(live);
  const reservedBytes = Math.round(
    allocatedBytes * (1 + (gathers ? unusedShare : unusedShare / 2)),
  );
  return assembleEstimate({
    method: 'formula',
    gpu,
    allocatedBytes,
    reservedBytes,
    interval: {
      lowBytes: Math.round(reservedBytes * (1 - lowShare)),
      highBytes: Math.round(reservedBytes * (1 + highShare)),
      confidence: 0.95,
    },
    live,
    parallel: spread,
    notes: [
      'A rule for several GPUs: the parts of one GPU, cut as this way cuts them; nothing of it is traced, and the interval is wide.',
      ...estimate.notes,
    ],
  });
}

function sum(live: ReadonlyMap<Part, number>): number {
  return [...live.values()].reduce((all, one) => all + one, 0);
}

/** Parameters of the largest repeated layer, and of all that lies outside of the layers. */
function groupsOf({ tensors, parameters }: KnownModel): {
  readonly layer: number;
  readonly rest: number;
} {
  const sizes = new Map<string, number>();
  let inLayers = 0;
  for (const { name, shape, count } of tensors) {
    const star = name.indexOf('*');
    if (star < 0) continue;
    const elements = shape.reduce((all, one) => all * one, 1) * count;
    const stack = name.slice(0, star);
    sizes.set(stack, (sizes.get(stack) ?? 0) + elements);
    inLayers += elements;
  }
  const counts = new Map<string, number>();
  for (const { name, count } of tensors) {
    const star = name.indexOf('*');
    // A layer has some parameters once: their number is that of the layers.
    if (star >= 0) {
      const stack = name.slice(0, star);
      counts.set(stack, Math.min(counts.get(stack) ?? Infinity, count));
    }
  }
  const layers = [...sizes].map(([stack, elements]) => elements / (counts.get(stack) ?? 1));
  return { layer: Math.ceil(Math.max(0, ...layers)), rest: Math.max(0, parameters - inLayers) };
}
