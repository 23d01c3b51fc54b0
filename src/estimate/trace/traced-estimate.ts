import { assembleEstimate, contextNote, otherReservedPeaks } from '../assemble.js';
import { type LimitedReplay, replayOn, roomOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import { type FindCapacity, safeCapacity } from '../least-capacity.js';
import type { Parallel } from '../parallel.js';
import type { Estimate } from '../types.js';
import { type EventStream, eventKind } from './event-stream.js';
import { otherRanks, rankNotes } from './other-ranks.js';
import { PhaseWatch } from './phase-peaks.js';
import { cublasWorkspace } from './recorded-events.js';
import { shuffledStreams } from './shuffled-batches.js';
import { withLeftOutSteps } from './steps/repeated-steps.js';
import { type Trace, traceCategories } from './trace-file.js';
import { tracedInterval } from './trace-interval.js';
import { liveParts } from './trace-parts.js';
import { drawnPeaks, likelyPeaks } from './unsure-kernels.js';

/** The card whose kernels the trace reproduces. */
export const tracedGpu = 'NVIDIA H200';

/**
 * What a traced job needs on a GPU: its requests, fed to a simulated allocator.
 *
 * @example
 * const { peak } = await tracedEstimate(trace, findGpu('h200'));
 * peak.reservedBytes;
 */
export async function tracedEstimate(
  trace: Trace,
  gpu: Gpu,
  parallel: Parallel | undefined = trace.parallel,
  findCapacity: FindCapacity = safeCapacity,
): Promise<Estimate> {
  const traced = withWorkspaceOf(trace, gpu);
  const phases = new PhaseWatch();
  const replayOf = (one: EventStream) => replayOn(gpu, one, {}, undefined, phases.onMark);
  const replayed = replayOf(traced);
  const own = { stream: traced, replayed };
  const longer = laterSegments({ ...trace, stream: traced }, replayed, replayOf);
  const drawn = trace.ragged && trace.drawn ? ordersOf(own, replayOf) : undefined;
  const usual = drawn ? usualOrder(drawn, own) : (longer ?? own);
  const { stream } = usual;
  const { peakAllocatedBytes, peakReservedBytes, peakAllocatedAt, limited, uncappedBytes } =
    usual.replayed;
  const least = findCapacity(stream, uncappedBytes);
  // Awaited below, after what this thread does meanwhile; what fails first is told.
  least.catch(() => {});
  const orders =
    drawn?.map((order) => order.replayed.peakReservedBytes) ??
    (trace.ragged ? peaksOfOrders(own, gpu) : []);
  const peaks = {
    reservedBytes: peakReservedBytes,
    allocatedBytes: peakAllocatedBytes,
    otherRuns: [
      ...otherReservedPeaks(gpu, stream),
      ...(longer ? [replayed.peakReservedBytes] : []),
      ...likelyPeaks(drawnPeaks(gpu, traced, trace.unsure)),
      // Who only runs a model has loaded it: nothing is left of a building.
      ...(trains(stream) && emptiesCache(stream)
        ? [replayOn(gpu, keepingCache(stream)).peakReservedBytes]
        : []),
      ...(parallel === undefined ? [] : otherRanks({ ...trace, stream: traced }, gpu, parallel)),
    ],
    otherOrders: orders,
    // A job that runs there holds no more than there is.
    ...(peakReservedBytes <= roomOn(gpu) ? { roomBytes: roomOn(gpu) } : {}),
  };
  const live = liveParts({ ...(longer?.trace ?? trace), stream }, peakAllocatedAt);
  const { safeBytes } = await least;
  return assembleEstimate({
    method: 'trace',
    gpu,
    allocatedBytes: peakAllocatedBytes,
    reservedBytes: peakReservedBytes,
    leastReservedBytes: safeBytes,
    interval: tracedInterval(trace, peaks, gpu.name === tracedGpu),
    live: live.bytes,
    modules: live.modules,
    parallel,
    ...(trace.program && { phases: phases.peaksOf(usual.replayed.allocator) }),
    notes: [
      ...ownNotes(trace, gpu),
      ...(parallel === undefined ? [] : rankNotes(parallel)),
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
  });
}

type ReplayOf = (stream: EventStream) => LimitedReplay;

/** A job as it may run, and what came of it. */
interface Order {
  readonly stream: EventStream;
  readonly replayed: LimitedReplay;
}

/** The job with steps that were left out, where an allocator holds another peak with these. */
function laterSegments(
  trace: Trace,
  { peakReservedBytes }: LimitedReplay,
  replayOf: ReplayOf,
): (Order & { readonly trace: Trace }) | undefined {
  const longer = withLeftOutSteps(trace);
  if (longer === undefined) return undefined;
  const replayed = replayOf(longer.stream);
  if (replayed.peakReservedBytes === peakReservedBytes) return undefined;
  return { trace: longer, stream: longer.stream, replayed };
}

/** The batches of a job in other orders and, where there are any, in its own. */
function ordersOf(own: Order, replayOf: ReplayOf): Order[] {
  const others = Array.from(shuffledStreams(own.stream), (stream) => ({
    stream,
    replayed: replayOf(stream),
  }));
  return others.length > 0 ? [own, ...others] : [];
}

/** What they reserve; each is made when it is replayed, and not kept. */
function peaksOfOrders({ stream, replayed }: Order, gpu: Gpu): number[] {
  const others = Array.from(shuffledStreams(stream), (one) => replayOn(gpu, one).peakReservedBytes);
  return others.length > 0 ? [replayed.peakReservedBytes, ...others] : [];
}

/** Where each run draws another order, that of a trace is one of many: half of them hold more, half less. */
function usualOrder(orders: readonly Order[], own: Order): Order {
  const rising = orders.toSorted(
    (a, b) => a.replayed.peakReservedBytes - b.replayed.peakReservedBytes,
  );
  return rising[Math.floor(rising.length / 2)] ?? own;
}

function trains({ marks }: EventStream): boolean {
  return marks.some(({ name }) => name.endsWith(':backward'));
}

function emptiesCache({ kind }: EventStream): boolean {
  return kind.includes(eventKind.emptyCache);
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

function ownNotes(trace: Trace, gpu: Gpu): string[] {
  const notes = [
    `Estimated from a run on the meta device (PyTorch ${trace.torch}, ${trace.parameters.toLocaleString('en-US')} parameters); the interval is that of reserved memory.`,
    contextNote(gpu),
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
