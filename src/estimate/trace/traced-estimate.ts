import type { CachingAllocator } from '../allocator/caching-allocator.js';
import { roundUp } from '../allocator/settings.js';
import { assembleEstimate, contextNote, otherReservedPeaks } from '../assemble.js';
import { type LimitedReplay, replayOn, roomOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import { type FindCapacity, safeCapacity } from '../least-capacity.js';
import type { Parallel } from '../parallel.js';
import type { Estimate, ModuleBytes, Part, PhasePeak } from '../types.js';
import { type EventStream, eventKind } from './event-stream.js';
import { cublasWorkspace } from './recorded-events.js';
import { shuffledStreams } from './shuffled-batches.js';
import { withLeftOutSteps } from './steps/repeated-steps.js';
import { type Trace, type TraceCategory, traceCategories } from './trace-file.js';
import { tracedInterval } from './trace-interval.js';
import { drawnPeaks, likelyPeaks } from './unsure-kernels.js';

/** The card whose kernels the trace reproduces. */
export const tracedGpu = 'NVIDIA H200';

/**
 * Estimates a traced job's memory on a GPU: its requests, replayed on a simulated allocator.
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

/** Yields the reserved bytes of each order; each is made when it is replayed, and not kept. */
function peaksOfOrders({ stream, replayed }: Order, gpu: Gpu): number[] {
  const others = Array.from(shuffledStreams(stream), (one) => replayOn(gpu, one).peakReservedBytes);
  return others.length > 0 ? [replayed.peakReservedBytes, ...others] : [];
}

/** Returns the median order: a trace's own order is one of many, half hold more, half less. */
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

const prefix = 'phase:';

/**
 * The highest figures of each phase of a program, seen while it is replayed. The phase that reserves the most first,
 * in time, makes the peak. One watch may see several replays, each of which has an allocator of its own.
 *
 * @example
 * const watch = new PhaseWatch();
 * const { allocator } = replay(trace.stream, {}, watch.onMark);
 * watch.peaksOf(allocator).find(({ makesPeak }) => makesPeak)?.phase; // 'steady steps'
 */
export class PhaseWatch {
  readonly #seen = new Map<CachingAllocator, Phases>();

  readonly onMark = (name: string, allocator: CachingAllocator): void => {
    if (!name.startsWith(prefix)) return;
    const phases = this.#seen.get(allocator) ?? new Phases(allocator);
    this.#seen.set(allocator, phases);
    phases.begin(name.slice(prefix.length));
  };

  /** In the order in which phases began, at the end of the replay with this allocator. */
  peaksOf(allocator: CachingAllocator): PhasePeak[] {
    return this.#seen.get(allocator)?.end() ?? [];
  }
}

class Phases {
  readonly #allocator: CachingAllocator;
  readonly #found = new Map<string, { allocatedBytes: number; reservedBytes: number }>();
  #current: string | undefined;
  #highest = { phase: '', reservedBytes: 0 };

  constructor(allocator: CachingAllocator) {
    this.#allocator = allocator;
  }

  begin(phase: string): void {
    this.#take();
    this.#current = phase;
  }

  end(): PhasePeak[] {
    this.#take();
    return [...this.#found].map(([phase, { allocatedBytes, reservedBytes }]) => ({
      phase,
      allocatedBytes,
      reservedBytes,
      makesPeak: phase === this.#highest.phase,
    }));
  }

  #take(): void {
    const allocator = this.#allocator;
    const current = this.#current;
    if (current === undefined) return;
    const before = this.#found.get(current) ?? { allocatedBytes: 0, reservedBytes: 0 };
    this.#found.set(current, {
      allocatedBytes: Math.max(before.allocatedBytes, allocator.peakAllocatedBytes),
      reservedBytes: Math.max(before.reservedBytes, allocator.memory.peakReservedBytes),
    });
    // A phase that comes again holds what the one before it reserved, and did not make that peak.
    if (allocator.memory.peakReservedBytes > this.#highest.reservedBytes) {
      this.#highest = { phase: current, reservedBytes: allocator.memory.peakReservedBytes };
    }
    allocator.resetPeaks();
  }
}

/** Parts of the second step, of a workload and of a program. */
const secondStep = /^(step|rank):2:(backward|optimizer|end)$/;
/** Steps that begin after the first gradients' memory was requested. */
const begins: ReadonlySet<string> = new Set(['ready', 'rank:1:backward']);
/** Buckets; with `gradient_as_bucket_view` gradients lie in them, and no others are there that early. */
const buckets: ReadonlySet<number> = new Set([
  traceCategories.indexOf('u'),
  traceCategories.indexOf('g'),
]);

/** Buffers of DeepSpeed beside weights, states and gradients. */
const zeroBuffers: ReadonlySet<number> = new Set([
  traceCategories.indexOf('u'),
  traceCategories.indexOf('p'),
]);

/**
 * Returns the reserved peaks of the same rank if other streams, or NCCL, give memory back later
 * than the host releases it. The delay depends on time, so all of them belong to the interval.
 */
export function otherRanks(trace: Trace, gpu: Gpu, { way }: Parallel): readonly number[] {
  const { stream } = trace;
  const peaks = [replayOn(gpu, stream, { streamWork: 'awaited' }).peakReservedBytes];
  if (way === 'zero2' || way === 'zero3') {
    // DeepSpeed documents its buffers; with overlapping communication it takes up to twice as much.
    return [...peaks, replayOn(gpu, withTwiceTheBuffers(trace)).peakReservedBytes];
  }
  if (way !== 'ddp') return peaks;
  // DDP makes its buckets anew in the second forward pass. What NCCL sent is kept until its watchdog looks, every
  // 100 ms: on an H200 the first bucket stayed into that forward pass, or to the end of its backward pass.
  const ends = stream.marks.flatMap(({ name, at }) => (secondStep.test(name) ? [at] : []));
  return [...peaks, ...ends.map((at) => replayOn(gpu, late(trace, at)).peakReservedBytes)];
}

function withTwiceTheBuffers({ stream, category }: Trace): EventStream {
  const bytes = stream.bytes.map((size, at) => {
    const kind = category[stream.slot[at] ?? 0] ?? -1;
    const isBuffer = stream.kind[at] === eventKind.alloc && zeroBuffers.has(kind);
    return isBuffer ? 2 * size : size;
  });
  return { ...stream, bytes };
}

/** The same requests, but the buckets of the first step are freed at a later event. */
function late({ stream, category }: Trace, until: number): EventStream {
  const start = stream.marks.find(({ name }) => begins.has(name))?.at ?? 0;
  const first = new Set<number>();
  for (let at = 0; at < start; at += 1) {
    const slot = stream.slot[at] ?? 0;
    const kind = category[slot] ?? -1;
    if (stream.kind[at] === eventKind.alloc && buckets.has(kind)) first.add(slot);
  }
  const order = [...stream.kind.keys()];
  const waits = order.filter(
    (at) => at < until && stream.kind[at] === eventKind.free && first.has(stream.slot[at] ?? 0),
  );
  const moved = new Set(waits);
  const others = order.filter((at) => !moved.has(at));
  const place = others.findIndex((at) => at >= until);
  const before = place === -1 ? others : others.slice(0, place);
  const after = place === -1 ? [] : others.slice(place);
  const changed = [...before, ...waits, ...after];
  return {
    ...stream,
    kind: Uint8Array.from(changed, (at) => stream.kind[at] ?? 0),
    slot: Int32Array.from(changed, (at) => stream.slot[at] ?? 0),
    bytes: Float64Array.from(changed, (at) => stream.bytes[at] ?? 0),
  };
}

/** Returns the notes on figures for one rank. */
function rankNotes({ way, gpus }: Parallel): string[] {
  const notes = [
    `One rank of ${gpus} was traced, the first, and none holds more; the other ranks were pretended.`,
    'The buffers of NCCL are estimated: between half and twice as much is usual. They count in device and least capacity.',
  ];
  if (way === 'zero1')
    notes.push('ZeRO-1 is ZeroRedundancyOptimizer without DDP around the model.');
  if (way === 'zero2' || way === 'zero3') {
    notes.push(
      'DeepSpeed was not run, and this was not measured: its buffers are those it documents, with its default sizes. The interval reaches up to twice as much of them.',
    );
  }
  return notes;
}

const partOf: Readonly<Record<TraceCategory, Part>> = {
  w: 'weights',
  g: 'gradients',
  o: 'optimizer',
  x: 'activations',
  b: 'activations',
  t: 'temporary',
  k: 'workspace',
  p: 'gathered',
  r: 'reduce',
  u: 'buckets',
};

/** The allocator hands out multiples of this. */
const smallestBlock = 512;

/** The parts whose modules people ask about: what is kept, and who is at work. */
const byModule: ReadonlySet<Part> = new Set(['activations', 'temporary']);

interface LiveParts {
  readonly bytes: ReadonlyMap<Part, number>;
  /** By module, the largest first, with the numbers in their names as `*`. */
  readonly modules: ReadonlyMap<Part, readonly ModuleBytes[]>;
}

/**
 * Returns the live bytes right after an event of a trace, by part.
 *
 * @example
 * liveParts(trace, replay(trace.stream).peakAllocatedAt).bytes.get('weights'); // 248942592
 */
export function liveParts(trace: Trace, at: number): LiveParts {
  const { kind, slot, bytes } = trace.stream;
  const held = new Float64Array(trace.stream.slots);
  for (let event = 0; event <= at; event += 1) {
    const place = slot[event] ?? 0;
    if (kind[event] === eventKind.alloc) held[place] = roundUp(bytes[event] ?? 0, smallestBlock);
    else if (kind[event] === eventKind.free) held[place] = 0;
  }
  const parts = new Map<Part, number>();
  /** By part, and by the name of the module as the trace gives it. */
  const named = new Map<Part, Map<string, number>>([...byModule].map((part) => [part, new Map()]));
  for (const [place, size] of held.entries()) {
    if (size === 0) continue;
    const part = partOf[traceCategories[trace.category[place] ?? 0] ?? 'x'];
    add(parts, part, size);
    const modules = named.get(part);
    if (modules) add(modules, trace.strings[trace.module[place] ?? 0] ?? '', size);
  }
  return {
    bytes: parts,
    modules: new Map([...named].map(([part, modules]) => [part, alike(modules)])),
  };
}

/** Modules that differ in their numbers only, as the layers of a stack do, become one. */
function alike(modules: ReadonlyMap<string, number>): readonly ModuleBytes[] {
  const folded = new Map<string, { count: number; bytes: number }>();
  for (const [name, bytes] of modules) {
    const module = name.replaceAll(/(?<=^|\.)\d+(?=\.|$)/g, '*');
    const before = folded.get(module) ?? { count: 0, bytes: 0 };
    folded.set(module, { count: before.count + 1, bytes: before.bytes + bytes });
  }
  return [...folded]
    .map(([module, { count, bytes }]) => ({ module, count, bytes }))
    .toSorted((a, b) => b.bytes - a.bytes || (a.module < b.module ? -1 : 1));
}

function add<Key>(sums: Map<Key, number>, key: Key, bytes: number): void {
  sums.set(key, (sums.get(key) ?? 0) + bytes);
}
