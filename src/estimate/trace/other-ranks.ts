import { replayOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import type { Parallel } from '../parallel.js';
import { type EventStream, eventKind } from './event-stream.js';
import { type Trace, traceCategories } from './trace-file.js';

/** Parts of the second step, of a workload and of a program. */
const secondStep = /^(step|rank):2:(backward|optimizer|end)$/;
/** What was asked for before is there when the first gradients come. */
const begins: ReadonlySet<string> = new Set(['ready', 'rank:1:backward']);
/** Buckets; with `gradient_as_bucket_view` gradients lie in them, and no others are there that early. */
const buckets: ReadonlySet<number> = new Set([
  traceCategories.indexOf('u'),
  traceCategories.indexOf('g'),
]);

/** What DeepSpeed asks for beside weights, states and gradients. */
const zeroBuffers: ReadonlySet<number> = new Set([
  traceCategories.indexOf('u'),
  traceCategories.indexOf('p'),
]);

/**
 * What the same rank reserves where other streams, or NCCL, give memory back later than the host lets
 * go of it. Which of them happens depends on time, so all of them belong to the interval.
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

/** What a person should know of figures for one rank. */
export function rankNotes({ way, gpus }: Parallel): string[] {
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
