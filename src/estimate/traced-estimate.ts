import { formatBytes, MiB } from '../units/bytes.js';
import type { AddressOrder } from './allocator/settings.js';
import { type Estimate, type Part, parts } from './contract.js';
import { replay } from './event-replay.js';
import { type EventStream, eventKind } from './event-stream.js';
import type { Gpu } from './gpu-table.js';
import { leastCapacity } from './least-capacity.js';
import { cublasWorkspace } from './recorded-events.js';
import { type Trace, traceCategories } from './trace-file.js';
import { type LiveParts, liveParts } from './trace-parts.js';

/** The card whose kernels the trace reproduces. */
export const tracedGpu = 'NVIDIA H200';

/** Where segments may lie beside where the driver was seen to put them. */
const otherOrders: readonly AddressOrder[] = ['fresh-driver', 'falling', 'rising'];
/**
 * What the trace itself may miss, each way: what real kernels take beside their results is known for
 * one card only, and segments come in whole steps.
 */
const missedShare = 0.03;
const missedBytes = 20 * MiB;
const confidence = 0.95;
/** How many modules the notes name. */
const namedModules = 3;

/**
 * What a traced job needs on a GPU: its requests, fed to a simulated allocator.
 *
 * @example
 * const { peak } = tracedEstimate(trace, findGpu('h200'));
 * peak.reservedBytes;
 */
export function tracedEstimate(trace: Trace, gpu: Gpu): Estimate {
  const stream = withWorkspaceOf(trace, gpu);
  const { peakAllocatedBytes, peakReservedBytes, peakAllocatedAt } = replay(stream);
  const others = otherOrders.map((addresses) => replay(stream, { addresses }).peakReservedBytes);
  const missed = Math.max(missedBytes, Math.round(peakReservedBytes * missedShare));
  const live = liveParts({ ...trace, stream }, peakAllocatedAt);
  const deviceBytes = peakReservedBytes + gpu.context.bytes;
  const { safeBytes } = leastCapacity(stream, {}, { safeOnly: true });
  return {
    method: 'trace',
    peak: {
      allocatedBytes: peakAllocatedBytes,
      reservedBytes: peakReservedBytes,
      deviceBytes,
      leastCapacityBytes: safeBytes + gpu.context.bytes,
    },
    interval: {
      lowBytes: Math.max(peakAllocatedBytes, Math.min(peakReservedBytes, ...others) - missed),
      highBytes: Math.max(peakReservedBytes, ...others) + missed,
      confidence,
    },
    breakdown: breakdown(live, peakReservedBytes, gpu),
    notes: [
      ...ownNotes(trace, gpu, live),
      ...(safeBytes > peakReservedBytes
        ? ['Building the model takes more than its steps do; only the least capacity counts it.']
        : []),
      ...trace.notes,
    ],
  };
}

/** The trace has the BLAS workspaces of one card; another card's may be smaller. */
function withWorkspaceOf(trace: Trace, gpu: Gpu): EventStream {
  const { stream, category } = trace;
  if (gpu.workspaceBytes === cublasWorkspace) return stream;
  const workspace = traceCategories.indexOf('k');
  const freed = new Uint8Array(stream.slots);
  for (const [at, kind] of stream.kind.entries()) {
    if (kind === eventKind.free) freed[stream.slot[at] ?? 0] = 1;
  }
  const bytes = stream.bytes.map((size, at) => {
    const slot = stream.slot[at] ?? 0;
    const isBlas =
      stream.kind[at] === eventKind.alloc &&
      size === cublasWorkspace &&
      category[slot] === workspace &&
      freed[slot] === 0;
    return isBlas ? gpu.workspaceBytes : size;
  });
  return { ...stream, bytes };
}

/** In the order of `parts`; what no block accounts for is held by the allocator, unused. */
function breakdown(live: LiveParts, reservedBytes: number, gpu: Gpu): Estimate['breakdown'] {
  const used = [...live.bytes.values()].reduce((sum, bytes) => sum + bytes, 0);
  const whole = new Map<Part, number>(live.bytes);
  whole.set('context', gpu.context.bytes);
  whole.set('fragmentation', reservedBytes - used);
  return parts.flatMap((part) => {
    const bytes = whole.get(part) ?? 0;
    return bytes === 0 ? [] : [{ part, bytes }];
  });
}

function ownNotes(trace: Trace, gpu: Gpu, live: LiveParts): string[] {
  const { context } = gpu;
  const notes = [
    `Estimated from a run on the meta device (PyTorch ${trace.torch}, ${trace.parameters} parameters); the interval is that of reserved memory.`,
    `The CUDA context of the ${gpu.name} takes ${mebibytes(context.lowBytes)} to ${mebibytes(context.highBytes)} MiB (${context.provenance}).`,
  ];
  if (gpu.name !== tracedGpu) {
    notes.push(`Kernels and their scratch memory are those of the ${tracedGpu}.`);
  }
  const largest = live.activations
    .slice(0, namedModules)
    .map(
      ({ module, bytes }) =>
        `${module === '' ? 'outside of the modules' : module} ${formatBytes(bytes)}`,
    );
  if (largest.length > 0) notes.push(`Most of the activations: ${largest.join(', ')}.`);
  return notes;
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / MiB);
}
