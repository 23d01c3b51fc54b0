import { MiB } from '../../units/bytes.js';
import type { AddressOrder } from '../allocator/settings.js';
import { limitOf, replayOn, roomOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import { leastCapacity } from '../least-capacity.js';
import { type Estimate, type Part, parts } from '../types.js';
import { type EventStream, eventKind } from './event-stream.js';
import { phasePeaks } from './phase-peaks.js';
import { cublasWorkspace } from './recorded-events.js';
import { type Trace, traceCategories } from './trace-file.js';
import { tracedInterval } from './trace-interval.js';
import { type LiveParts, liveParts } from './trace-parts.js';

/** The card whose kernels the trace reproduces. */
export const tracedGpu = 'NVIDIA H200';

/** Where segments may lie beside where the driver was seen to put them. */
const otherOrders: readonly AddressOrder[] = ['fresh-driver', 'falling', 'rising'];

/**
 * What a traced job needs on a GPU: its requests, fed to a simulated allocator.
 *
 * @example
 * const { peak } = await tracedEstimate(trace, findGpu('h200'));
 * peak.reservedBytes;
 */
export async function tracedEstimate(trace: Trace, gpu: Gpu): Promise<Estimate> {
  const stream = withWorkspaceOf(trace, gpu);
  const { peakAllocatedBytes, peakReservedBytes, peakAllocatedAt, limited } = replayOn(gpu, stream);
  const peaks = {
    reservedBytes: peakReservedBytes,
    allocatedBytes: peakAllocatedBytes,
    otherRuns: [
      ...otherOrders.map((addresses) => replayOn(gpu, stream, { addresses })),
      // Who only runs a model has loaded it: nothing is left of a building.
      ...(trains(stream) ? [replayOn(gpu, keepingCache(stream))] : []),
    ].map((run) => run.peakReservedBytes),
    // A job that runs there holds no more than there is.
    ...(peakReservedBytes <= roomOn(gpu) ? { roomBytes: roomOn(gpu) } : {}),
  };
  const live = liveParts({ ...trace, stream }, peakAllocatedAt);
  const deviceBytes = peakReservedBytes + gpu.context.bytes;
  const { safeBytes } = await leastCapacity(stream, {}, { safeOnly: true });
  return {
    method: 'trace',
    peak: {
      allocatedBytes: peakAllocatedBytes,
      reservedBytes: peakReservedBytes,
      deviceBytes,
      leastCapacityBytes: safeBytes + gpu.context.bytes,
    },
    interval: tracedInterval(trace, peaks, gpu.name === tracedGpu),
    breakdown: breakdown(live, peakReservedBytes, gpu),
    ...(trace.program ? { phases: phasePeaks(stream, limited ? limitOf(gpu) : {}) } : {}),
    notes: [
      ...ownNotes(trace, gpu),
      ...(limited
        ? [
            `Without a limit it would hold more: where the memory of the ${gpu.name} ends, PyTorch gives back what it holds unused, and takes slower convolutions.`,
          ]
        : []),
      ...(safeBytes > peakReservedBytes
        ? ['Building the model takes more than its steps do; only the least capacity counts it.']
        : []),
      ...trace.notes,
    ],
  };
}

function trains({ marks }: EventStream): boolean {
  return marks.some(({ name }) => name.endsWith(':backward'));
}

/**
 * The same job in a program that built its model on the card and went on without `empty_cache()`: what
 * was left over from building is used again, and segments lie otherwise.
 */
function keepingCache(stream: EventStream): EventStream {
  const { emptyCache, resetPeaks } = eventKind;
  return { ...stream, kind: stream.kind.map((kind) => (kind === emptyCache ? resetPeaks : kind)) };
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
    const modules = live.modules.get(part) ?? [];
    if (bytes === 0) return [];
    return modules.length === 0 ? [{ part, bytes }] : [{ part, bytes, modules }];
  });
}

function ownNotes(trace: Trace, gpu: Gpu): string[] {
  const { context } = gpu;
  const notes = [
    `Estimated from a run on the meta device (PyTorch ${trace.torch}, ${trace.parameters.toLocaleString('en-US')} parameters); the interval is that of reserved memory.`,
    `The CUDA context of the ${gpu.name} takes ${mebibytes(context.lowBytes)} to ${mebibytes(context.highBytes)} MiB (${context.provenance}).`,
  ];
  if (gpu.name !== tracedGpu) notes.push(otherCardNote(gpu));
  return notes;
}

function otherCardNote({ name, vendor, capability }: Gpu): string {
  if (vendor !== 'nvidia' || Number.isNaN(Number.parseFloat(capability))) {
    return `Kernels and their scratch memory are those of the ${tracedGpu}.`;
  }
  return `Kernels and their scratch memory were measured on the ${tracedGpu}; for the ${name} they follow from its architecture.`;
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / MiB);
}
