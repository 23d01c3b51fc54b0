import { MiB } from '../units/bytes.js';
import type { AddressOrder } from './allocator/settings.js';
import { replayOn } from './cards/card-limit.js';
import type { Gpu } from './cards/gpu-table.js';
import { communicationBytes, type Parallel, ranksOf } from './parallel.js';
import { spillCurve } from './spill-curve.js';
import type { EventStream } from './trace/event-stream.js';
import { type Estimate, type Part, type PartBytes, parts } from './types.js';

export interface EstimateParts {
  readonly method: Estimate['method'];
  readonly gpu: Gpu;
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  /** Segments that the job can do with; as many as it reserves where it is left out. */
  readonly leastReservedBytes?: number;
  readonly interval: Estimate['interval'];
  /** What was live at the peak, by what it is for. */
  readonly live: ReadonlyMap<Part, number>;
  readonly modules?: ReadonlyMap<Part, NonNullable<PartBytes['modules']>> | undefined;
  readonly phases?: Estimate['phases'];
  /** How it is spread over GPUs. */
  readonly parallel?: Parallel | undefined;
  readonly notes: readonly string[];
}

/** An estimate from its figures, however they were found: context and buffers of NCCL come on top. */
export function assembleEstimate(from: EstimateParts): Estimate {
  const { method, gpu, allocatedBytes, reservedBytes, interval, phases, notes } = from;
  const { leastReservedBytes = reservedBytes, parallel } = from;
  const outside = gpu.context.bytes + (parallel === undefined ? 0 : communicationBytes(parallel));
  const peak = {
    allocatedBytes,
    reservedBytes,
    deviceBytes: reservedBytes + outside,
    leastCapacityBytes: leastReservedBytes + outside,
  };
  const breakdown = breakdownOf(from);
  const spill = spillCurve({ peak, breakdown }, gpu);
  return {
    method,
    peak,
    interval,
    breakdown,
    ...(spill.length === 0 ? {} : { spill }),
    ...(parallel === undefined ? {} : { ranks: ranksOf(parallel) }),
    ...(phases === undefined ? {} : { phases }),
    notes,
  };
}

/** In the order of `parts`; what no block accounts for is held by the allocator, unused. */
function breakdownOf({
  live,
  modules,
  reservedBytes,
  gpu,
  parallel,
}: EstimateParts): Estimate['breakdown'] {
  const used = [...live.values()].reduce((sum, bytes) => sum + bytes, 0);
  const whole = new Map<Part, number>(live);
  whole.set('context', gpu.context.bytes);
  if (parallel !== undefined) whole.set('communication', communicationBytes(parallel));
  whole.set('fragmentation', reservedBytes - used);
  return parts.flatMap((part) => {
    const bytes = whole.get(part) ?? 0;
    const inside = modules?.get(part) ?? [];
    if (bytes === 0) return [];
    return inside.length === 0 ? [{ part, bytes }] : [{ part, bytes, modules: inside }];
  });
}

/** Where segments may lie beside where the driver was seen to put them. */
const otherOrders: readonly AddressOrder[] = ['fresh-driver', 'falling', 'rising'];

/** What the same events reserve where segments lie otherwise. */
export function otherReservedPeaks(gpu: Gpu, stream: EventStream): readonly number[] {
  return otherOrders.map((addresses) => replayOn(gpu, stream, { addresses }).peakReservedBytes);
}

/** The same estimate with the context of another card; what kernels choose there may differ a little. */
export function onOtherCard(
  estimate: Estimate,
  from: Pick<Gpu, 'context'>,
  to: Pick<Gpu, 'context'>,
): Estimate {
  const more = to.context.bytes - from.context.bytes;
  const { peak } = estimate;
  return {
    ...estimate,
    peak: {
      ...peak,
      deviceBytes: peak.deviceBytes + more,
      leastCapacityBytes: peak.leastCapacityBytes + more,
    },
  };
}

export function contextNote({ name, context }: Gpu): string {
  const [low, high] = [context.lowBytes, context.highBytes].map((bytes) => Math.round(bytes / MiB));
  return `The CUDA context of the ${name} takes ${low} to ${high} MiB (${context.provenance}).`;
}
