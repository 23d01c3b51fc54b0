import { GiB, MiB } from '../units/bytes.js';
import type { Gpu } from './cards/gpu-table.js';
import { decideSpill, type MeasuredStep, type SpillBlock } from './spill-decision.js';
import type { Estimate, ModuleBytes, Part, SpillPoint } from './types.js';

/** GB a second, from data sheets: of the bus in one direction as programs reach it, and of the card's memory. */
interface CardSpeed {
  readonly bus: number;
  readonly memory: number;
}

/** The first whose name is in that of the card. */
const cardSpeeds: readonly (readonly [name: string, bus: number, memory: number])[] = [
  ['V100', 12, 900],
  ['T4', 12, 320],
  ['A100-SXM4-40GB', 24, 1555],
  ['A100', 24, 2039],
  ['A10', 24, 600],
  ['A30', 24, 933],
  ['A40', 24, 696],
  ['A6000', 24, 768],
  ['RTX 3090', 24, 936],
  ['RTX 4090', 24, 1008],
  ['RTX 5090', 48, 1792],
  ['L40', 24, 864],
  ['L20', 24, 864],
  ['L4', 24, 300],
  ['GH200', 300, 4000],
  ['H200', 45, 4800],
  ['H100 NVL', 45, 3900],
  ['H100', 45, 3350],
  ['B200', 48, 8000],
  ['MI300', 45, 5300],
];
const speedByGeneration: Readonly<Record<string, CardSpeed>> = {
  7: { bus: 12, memory: 600 },
  8: { bus: 24, memory: 700 },
  9: { bus: 45, memory: 3350 },
};
const latestSpeed: CardSpeed = { bus: 45, memory: 1792 };

function speedOf({ name, capability }: Gpu): CardSpeed {
  const known = cardSpeeds.find(([part]) => name.includes(part));
  if (known !== undefined) return { bus: known[1], memory: known[2] };
  return speedByGeneration[capability.split('.')[0] ?? ''] ?? latestSpeed;
}

/**
 * Milliseconds of a step for each GiB that autograd keeps, on an H200. The 13 programs of
 * bench/results/spill.md take between 4.3 (a GPT in bf16) and 25 (ViT-large in fp32) for each GiB that
 * they need, 7.3 in the median.
 */
const stepTimes = { fast: 4.3, usual: 7.3, slow: 25 };
const measuredMemory = 4800;
/** What the rule does not see: copies that come late, memory in pieces. Of what it adds to a step. */
const unseen = 1.5;
/** Room for spilled bytes is not known before the run: a machine has at least as much as its card. */
const hostShare = 1;
/** Of the memory that the job needs. Below a half most measured programs ran out of memory all the same. */
const shares = [0.9, 0.75, 0.6, 0.5];

/**
 * How long a step takes in less memory than it needs, if what autograd keeps is spilled or computed
 * again, by bytes alone: figures for a choice, with an interval from fast to slow programs. None for
 * work that is no training, or whose activations are not the most of it.
 *
 * @example
 * spillCurve(estimate, gpu)[2]; // { memoryBytes: 12884901888, slowdown: { low: 1.05, expected: 1.2, high: 1.4 } }
 */
export function spillCurve(
  { peak, breakdown }: Pick<Estimate, 'peak' | 'breakdown'>,
  gpu: Gpu,
): readonly SpillPoint[] {
  const bytesOf = (part: Part) => breakdown.find((one) => one.part === part)?.bytes ?? 0;
  const kept = bytesOf('activations');
  const isTraining = bytesOf('optimizer') + bytesOf('gradients') > 0;
  if (!isTraining || kept < 64 * MiB) return [];
  const modules = breakdown.find(({ part }) => part === 'activations')?.modules ?? [];
  const steps = stepsOf(kept, blocksOf(modules), bytesOf, gpu);
  const beside = bytesOf('context') + bytesOf('communication');
  const points: SpillPoint[] = [];
  for (const share of shares) {
    const memoryBytes = Math.floor((peak.deviceBytes * share) / MiB) * MiB;
    const plans = steps.map((step) => {
      const plan = decideSpill(step, memoryBytes - beside);
      return { fits: plan.fits, times: plan.stepSeconds / step.stepSeconds };
    });
    if (!plans.every(({ fits }) => fits)) break;
    const times = plans.map((plan) => plan.times);
    const [low, high] = [Math.min(...times), Math.max(...times)];
    const expected = times[1] ?? high;
    const slowdown = {
      low: rounded(low),
      expected: rounded(expected),
      high: rounded(1 + (high - 1) * unseen),
    };
    points.push({ memoryBytes, slowdown });
  }
  return points;
}

function rounded(times: number): number {
  return Math.round(times * 100) / 100;
}

/** The same job as a fast, a usual and a slow program. */
function stepsOf(
  keptBytes: number,
  shapes: readonly Omit<SpillBlock, 'seconds'>[],
  bytesOf: (part: Part) => number,
  gpu: Gpu,
): readonly MeasuredStep[] {
  const { bus, memory } = speedOf(gpu);
  const inBlocks = shapes.reduce((sum, { bytes }) => sum + bytes, 0);
  // At the instant of the peak some gradients are still to come; states that are kept tell how many.
  const gradients = Math.max(
    bytesOf('gradients'),
    Math.min(bytesOf('weights'), Math.round(bytesOf('optimizer') / 2)),
  );
  const fixed = bytesOf('weights') + gradients + bytesOf('optimizer') + bytesOf('workspace');
  return [stepTimes.slow, stepTimes.usual, stepTimes.fast].map((milliseconds) => {
    const stepSeconds = (keptBytes / GiB) * (milliseconds / 1000) * (measuredMemory / memory);
    const forward = stepSeconds / 3;
    return {
      blocks: shapes.map((block) => ({ ...block, seconds: (forward * block.bytes) / keptBytes })),
      otherBytes: Math.max(0, keptBytes - inBlocks),
      fixedBytes: fixed,
      optimizerBytes: bytesOf('optimizer'),
      temporaryBytes: bytesOf('temporary'),
      lossBytes: 0,
      outBytesPerSecond: bus * 1e9,
      backBytesPerSecond: bus * 1e9,
      stepSeconds,
      hostBytes: Math.floor(gpu.capacityBytes * hostShare),
    };
  });
}

/** Repeated layers, as their names tell: all of `model.layers.*.mlp` and the like belong to `model.layers.*`. */
function blocksOf(modules: readonly ModuleBytes[]): readonly Omit<SpillBlock, 'seconds'>[] {
  const layers = new Map<string, { bytes: number; count: number }>();
  for (const { module, count, bytes } of modules) {
    const star = module.indexOf('*');
    if (star === -1 || count < 2) continue;
    const name = module.slice(0, star + 1);
    const known = layers.get(name) ?? { bytes: 0, count };
    layers.set(name, { bytes: known.bytes + bytes, count: Math.min(known.count, count) });
  }
  return [...layers].flatMap(([name, { bytes, count }]) =>
    Array.from({ length: count }, (_, index) => ({
      name: name.replace('*', String(index)),
      bytes: Math.floor(bytes / count),
    })),
  );
}
