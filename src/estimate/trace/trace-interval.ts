import { MiB } from '../../units/bytes.js';
import type { Estimate } from '../types.js';
import { eventKind } from './event-stream.js';
import { type Trace, traceCategories } from './trace-file.js';

/**
 * Error of a trace in each direction, beside the order of segments, their earlier contents, and
 * unsure kernels. Of runs on an H200 without kernels that choose their own scratch memory, one in a
 * hundred lay outside of all the orders. Among many such kernels, as in convolutional networks,
 * some that seemed sure are wrong: of 164 runs with layers kept aside, none by more than this.
 * Other cards have other kernels. Of published runs on an RTX 3060, transformers lay within 5 %;
 * convolutional networks held up to 9 % less, and up to 21 % more.
 */
const missedShare = {
  sameCard: { plain: { low: 0.01, high: 0.01 }, scratch: { low: 0.015, high: 0.015 } },
  otherCard: { plain: { low: 0.05, high: 0.05 }, convolutions: { low: 0.1, high: 0.22 } },
};
/**
 * The smallest share for a program that runs as it is. 135 such programs had no part that is known to be unsure, and
 * were estimated before an H200 measured them. 116 lay in the interval above. Ten were off by up to 7 %. The other nine
 * were off by 12 % or more, each because of a bug in the tracer, which was fixed.
 */
const programShare = { low: 0.025, high: 0.051 };
/**
 * Difference between a run that skips layers at random and one that runs them all: 28 runs of five
 * such jobs on an H200 took 7.5 % less to 1.7 % more. Of six runs of a translator four took 9 to 11
 * % more: if steps differ, the largest block may not fit into the memory of the last step, and
 * another one is taken.
 */
const skippedShare = { low: 0.08, high: 0.02 };
/**
 * Memory that fused kernels save if a program compiles its model and the trace ran it uncompiled:
 * on an H200 nanoGPT took 29 % less and another GPT 31 % in training, 56 % in inference, a ResNet
 * nothing. Compiled kernels take more if they keep tensors that eager ones recompute.
 */
const compiledShare = { low: 0.6, high: 0.1 };
/**
 * Difference through kernels that PyTorch's compiler tries at their first run, and through padded
 * products: on an H200 two GPTs and a ResNet held 3 % less to 9 % more than their traces.
 */
const fusedShare = { low: 0.08, high: 0.12 };
/**
 * Additional memory in the pool of CUDA graphs, which nothing else can use, if a program asks for
 * graphs and the trace ran without: on an H200 a recommender held 18 % more.
 */
const graphsShare = { low: 0, high: 0.3 };
/**
 * Unused memory through batches of different shapes, beyond the orders in which those of a trace
 * were replayed, or without these. A program that sets a seed is traced in the order of a real run,
 * and the trace leaves out smaller batches: of 14 such programs on an H200 13 held 0.4 % less to
 * 0.7 % more, one 7 %. Without a seed each run has other batches: a translator held 3.5 and 3.7 GiB
 * in two runs; a detector held 15.2 GiB, its traces 13.4, 13.7 and 17.8; a graph network 1.7 GiB,
 * its traces 1.9 to 2.4; another one 3.1 GiB, its traces 3.1 or 4.4.
 */
const raggedShare = {
  seeded: { replayed: { low: 0.05, high: 0.1 }, alone: { low: 0.15, high: 0.4 } },
  drawn: { replayed: { low: 0.15, high: 0.25 }, alone: { low: 0.35, high: 0.6 } },
};
/**
 * Additional memory of a program after the traced part: of five programs that were ended, two took
 * 7 % more than their traces, the others nothing. Before traces ran loops to their end, one took 19
 * % more in its last evaluation, and one that read pictures after its training twice as much.
 */
const endedShare = { low: 0, high: 0.35 };
/**
 * The most that left-out loop turns may keep: a pool that a program fills is full at some time. The
 * same limit holds for rows that data choose: rows that one expert gets, the others do not.
 */
const maxGrowthShare = 2;
/**
 * Difference through kernels that cuDNN only tries: 18 programs on an H200 held 0.5 % less to 4 %
 * more. Of 270 layers whose kernels were tried there, two asked for less than the trace counts.
 */
const benchmarkShare = { low: 0.03, high: 0.12 };
/**
 * The same where a kernel by Fourier transform was counted, which cuDNN does not list without a card, beyond what runs
 * hold in which some of them are not tried: five programs held 1.3 % less to 2.1 % more.
 */
const guessedTrialsShare = { low: 0.1, high: 0.12 };
/** One shared segment of the allocator, more or less. */
const missedBytes = 20 * MiB;
/** From this share of the requests on, scratch memory of kernels decides; a lone one does not. */
const scratchShare = 0.005;
const confidence = 0.95;

export interface ReplayedPeaks {
  readonly reservedBytes: number;
  readonly allocatedBytes: number;
  /** Reserved where segments lie in other orders, hold what the building of the model left, or other kernels run. */
  readonly otherRuns: readonly number[];
  /** Reserved with batches that differ in shape in other orders, where they can change places. */
  readonly otherOrders?: readonly number[];
  /** Room for segments on the card, if the job fits. */
  readonly roomBytes?: number;
}

/**
 * The interval of reserved bytes: all orders that segments may lie in, emptied after building or not, and
 * kernels as they may be chosen, widened by what the trace may miss. `sameCard` says that the kernels traced
 * are those of the card asked about.
 *
 * @example
 * tracedInterval(trace, { reservedBytes, allocatedBytes, otherRuns: [] }, true).highBytes;
 */
export function tracedInterval(
  trace: Trace,
  {
    reservedBytes,
    allocatedBytes,
    otherOrders = [],
    roomBytes = Infinity,
    ...peaks
  }: ReplayedPeaks,
  sameCard: boolean,
): Estimate['interval'] {
  // Their workspaces are live memory, too: what is allocated there is no more certain than what is reserved.
  const otherKernels = !sameCard && convolutionsDecide(trace);
  const known = sameCard
    ? missedShare.sameCard[scratchDecides(trace) ? 'scratch' : 'plain']
    : missedShare.otherCard[otherKernels ? 'convolutions' : 'plain'];
  const least = trace.program ? programShare : { low: 0, high: 0 };
  const share = { low: Math.max(known.low, least.low), high: Math.max(known.high, least.high) };
  const otherRuns = [...peaks.otherRuns, ...otherOrders];
  const order =
    raggedShare[trace.drawn ? 'drawn' : 'seeded'][otherOrders.length > 0 ? 'replayed' : 'alone'];
  const missed = (part: number) => Math.max(missedBytes, Math.round(reservedBytes * part));
  const tried = trace.guessesTrials ? guessedTrialsShare : benchmarkShare;
  const chosen = (side: 'low' | 'high') =>
    Math.round(
      reservedBytes *
        ((trace.skipsLayers ? skippedShare[side] : 0) +
          (trace.compiled ? compiledShare[side] : 0) +
          (trace.fused ? fusedShare[side] : 0) +
          (trace.graphs ? graphsShare[side] : 0) +
          (trace.ragged ? order[side] : 0) +
          (trace.ended ? endedShare[side] : 0) +
          (trace.benchmark ? tried[side] : 0)),
    );
  const lowBytes =
    Math.min(reservedBytes, ...otherRuns) -
    missed(share.low) -
    chosen('low') -
    trace.maybeLessBytes;
  const grown = Math.min(trace.maybeMoreBytes, Math.round(reservedBytes * maxGrowthShare));
  const onceMore = trace.skipsLayers ? largestOfSteps(trace) : 0;
  const highBytes =
    Math.max(Math.max(reservedBytes, ...otherRuns) + chosen('high'), reservedBytes + onceMore) +
    missed(share.high) +
    grown;
  return {
    lowBytes: Math.max(
      otherKernels || mayAllocateLess(trace)
        ? 0
        : Math.max(0, Math.round(allocatedBytes * (1 - least.low)) - trace.maybeLessBytes),
      lowBytes,
    ),
    highBytes: Math.max(reservedBytes, Math.min(roomBytes, highBytes)),
    confidence,
  };
}

/** A run that leaves out layers, fuses kernels, tries fewer of them or chooses others has less allocated, too. */
function mayAllocateLess({ skipsLayers, compiled, fused, benchmark, unsure }: Trace): boolean {
  return skipsLayers || compiled || fused || benchmark || unsure.length > 0;
}

/** The largest block that steps ask for, scratch memory of kernels aside. */
function largestOfSteps({ stream, category }: Trace): number {
  const workspace = traceCategories.indexOf('k');
  const start = stream.marks.find(({ name }) => name === 'ready')?.at ?? 0;
  let largest = 0;
  for (let at = start; at < stream.length; at += 1) {
    const counts =
      stream.kind[at] === eventKind.alloc && category[stream.slot[at] ?? 0] !== workspace;
    if (counts) largest = Math.max(largest, stream.bytes[at] ?? 0);
  }
  return largest;
}

/** Whether they had workspaces there is not known where cuDNN could not be asked. */
function convolutionsDecide({ stream, convolutions }: Trace): boolean {
  return convolutions > scratchShare * stream.slots;
}

function scratchDecides({ stream, category }: Trace): boolean {
  const workspace = traceCategories.indexOf('k');
  let scratch = 0;
  for (let at = 0; at < stream.length; at += 1) {
    // What is never given back is the workspace of a library, which is known.
    const ends = stream.kind[at] === eventKind.free;
    if (ends && category[stream.slot[at] ?? 0] === workspace) scratch += 1;
  }
  return scratch > scratchShare * stream.slots;
}
