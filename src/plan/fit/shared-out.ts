import type { Estimate, Part, PartBytes } from '../../estimate/types.js';
import { formatBytes } from '../../units/bytes.js';
import { sureBytes } from './fit.js';
import type { Configuration, PlanFacts } from './types.js';

// What one GPU keeps when states wait on the host or are shared out over GPUs. Arithmetic on an
// estimate of the job on one GPU; docs/plan.md says what is certain about it.

/** Share of the weights that ZeRO 3 is assumed to gather at a time if the number of layers is unknown. */
const gatheredShare = 0.1;
/** The layer that computes, and the next one that is fetched meanwhile. */
const gatheredLayers = 2;
/** A weight that waits on the host is kept in 16 bits there, and in 4 on the GPU. */
const hostPerQuantizedByte = 2 / 0.5159;

export interface OnOneGpu {
  readonly estimate: Estimate;
  readonly hostBytes: number;
}

/**
 * The estimate of one GPU's part of a job. `atBackward` bounds what lives beside weights and states
 * when the backward pass begins; ZeRO 2 and 3 need it, as sharing gradients out saves nothing then.
 *
 * @example
 * onOneGpu(estimate, { ...configuration, zero: 3 }, { ...facts, gpus: 8 }, atBackward).estimate.peak;
 */
export function onOneGpu(
  estimate: Estimate,
  configuration: Configuration,
  facts: PlanFacts,
  atBackward = Number.POSITIVE_INFINITY,
): OnOneGpu {
  if (configuration.offload === 'weights') return weightsOnHost(estimate, facts);
  const { gpus, layers } = facts;
  const part = (name: Part) => partOf(estimate, name);
  const apart = 1 - 1 / gpus;
  const onHost = configuration.offload === 'optimizer' ? part('optimizer') : 0;
  const optimizer = onHost > 0 ? onHost : configuration.zero >= 1 ? part('optimizer') * apart : 0;
  const gathered = part('weights') * Math.min(1, layers ? gatheredLayers / layers : gatheredShare);
  const weights = configuration.zero === 3 ? Math.max(0, part('weights') * apart - gathered) : 0;
  // The peak moves to where the backward pass begins once gradients no longer make it.
  const moving = part('gradients') + part('activations') + part('temporary');
  const gradients =
    configuration.zero >= 2
      ? Math.min(part('gradients') * apart, Math.max(0, moving - atBackward))
      : 0;
  // Without ZeRO each GPU keeps a second copy of the gradients, to exchange them.
  const buckets = gpus > 1 && configuration.zero === 0 ? part('gradients') : 0;
  const less = new Map<Part, number>([
    ['optimizer', Math.floor(optimizer)],
    ['gradients', Math.floor(gradients)],
    ['weights', Math.floor(weights)],
    ['temporary', -buckets],
  ]);
  return {
    estimate: lessOf(estimate, less, arithmeticNotes(configuration, facts, onHost)),
    // All GPUs are taken to be in one machine; without ZeRO each keeps all states there.
    hostBytes: configuration.zero > 0 ? onHost : onHost * gpus,
  };
}

/**
 * Returns the live bytes beside weights and states when the backward pass of a small batch begins,
 * from the estimate of a batch `times` as large: there activations make the peak, and they grow
 * with the batch.
 */
export function backwardBytes(larger: Estimate, times: number): number {
  const always = partOf(larger, 'weights') + partOf(larger, 'optimizer');
  return Math.ceil((larger.peak.deviceBytes - always - partOf(larger, 'context')) / times);
}

function partOf({ breakdown }: Estimate, name: Part): number {
  return breakdown.find(({ part }) => part === name)?.bytes ?? 0;
}

/** As many layers wait on the host as must. */
function weightsOnHost(estimate: Estimate, { capacityBytes }: PlanFacts): OnOneGpu {
  const weights = partOf(estimate, 'weights');
  const moved = Math.min(weights, Math.max(0, sureBytes(estimate) - capacityBytes));
  const note = `Layers of ${formatBytes(moved)} in 4 bits wait on the host.`;
  return {
    estimate: lessOf(estimate, new Map([['weights', moved]]), moved > 0 ? [note] : []),
    hostBytes: Math.ceil(moved * hostPerQuantizedByte),
  };
}

function lessOf(
  estimate: Estimate,
  less: ReadonlyMap<Part, number>,
  notes: readonly string[],
): Estimate {
  const saved = [...less.values()].reduce((sum, bytes) => sum + bytes, 0);
  if (saved === 0 && notes.length === 0) return estimate;
  const { peak, interval, breakdown } = estimate;
  const minus = (bytes: number) => Math.max(0, bytes - saved);
  return {
    ...estimate,
    peak: {
      allocatedBytes: minus(peak.allocatedBytes),
      reservedBytes: minus(peak.reservedBytes),
      deviceBytes: minus(peak.deviceBytes),
      leastCapacityBytes: minus(peak.leastCapacityBytes),
    },
    interval: {
      ...interval,
      lowBytes: minus(interval.lowBytes),
      highBytes: minus(interval.highBytes),
    },
    breakdown: lessParts(breakdown, less),
    notes: [...estimate.notes, ...notes],
  };
}

function lessParts(
  breakdown: readonly PartBytes[],
  less: ReadonlyMap<Part, number>,
): readonly PartBytes[] {
  const added = [...less].filter(
    ([part, bytes]) => bytes < 0 && breakdown.every((entry) => entry.part !== part),
  );
  return [
    ...breakdown.map((entry) => {
      const bytes = less.get(entry.part) ?? 0;
      // Whose it was is no longer known.
      return bytes === 0 ? entry : { part: entry.part, bytes: entry.bytes - bytes };
    }),
    ...added.map(([part, bytes]) => ({ part, bytes: -bytes })),
  ].filter(({ bytes }) => bytes > 0);
}

function arithmeticNotes(
  { zero, offload }: Configuration,
  { gpus }: PlanFacts,
  onHost: number,
): string[] {
  const shared = ['', 'optimizer states', 'optimizer states and gradients', 'all states'][zero];
  return [
    ...(offload === 'optimizer'
      ? [`The states of the optimizer, ${formatBytes(onHost)}, wait on the host (arithmetic).`]
      : []),
    ...(zero > 0
      ? [`ZeRO ${zero} shares ${shared} out over ${gpus} GPUs (arithmetic on the job on one).`]
      : []),
    ...(gpus > 1 && zero === 0
      ? ['Each GPU keeps a second copy of the gradients, to exchange them.']
      : []),
  ];
}
