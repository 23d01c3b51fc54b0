import type { KnownModel } from '../../model/types.js';
import { MiB } from '../../units/bytes.js';
import { roundUp, segmentStep } from '../allocator/sizes.js';
import { assembleEstimate, contextNote, otherReservedPeaks } from '../assemble.js';
import { replayOn, roomOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import { replay } from '../trace/event-replay.js';
import { type EventStream, eventKind } from '../trace/event-stream.js';
import type { Estimate, Part, Workload } from '../types.js';
import { packingOf } from './checks.js';
import { dryRun } from './dry-run.js';
import { NoFormula } from './no-formula.js';
import { type Spread, spreadOf } from './spread.js';
import { tooLarge } from './too-large.js';

/** Segments come in whole steps, and libraries load a little more than is known. */
const missedBytes = 64 * MiB;
/** How finely the least capacity is looked for. */
const leastSteps = 8;
const confidence = 0.95;
const smallestBlock = 512;

/**
 * What a workload of a known family needs: every op is gone through, and what it asks for is fed to
 * the simulated allocator. Throws `NoFormula` where a part of the model is unknown.
 */
export function knownEstimate(model: KnownModel, workload: Workload, gpu: Gpu): Estimate {
  if (model.head === 'none' && workload.mode === 'train') {
    throw new NoFormula(`training ${model.className}, which has no loss of its own`);
  }
  const packing = packingOf(workload);
  const run = dryRun(model, workload, gpu, packing);
  if (run.parameters !== model.parameters) {
    throw new NoFormula(
      `${model.className} with these settings: its parts add up to ${run.parameters} of ${model.parameters} parameters`,
    );
  }
  const { stream } = run;
  const { peakAllocatedBytes, peakReservedBytes, peakAllocatedAt } = replayOn(gpu, stream);
  // What the interval adds must stay exact, too.
  if (!Number.isSafeInteger(peakReservedBytes * 4)) {
    throw tooLarge(`It would take ${peakReservedBytes} bytes in all`);
  }
  const others = [...otherReservedPeaks(gpu, stream)];
  // Code that keeps its scores needs more; whether this code does, its config does not say.
  if (model.writtenScores === 'unknown') {
    const written = dryRun({ ...model, writtenScores: '32-bit' }, workload, gpu, packing);
    others.push(replayOn(gpu, written.stream).peakReservedBytes);
  }
  const fits = peakReservedBytes <= roomOn(gpu);
  const spread = spreadOf(model, workload);
  const missed = Math.max(missedBytes, Math.round(peakAllocatedBytes * spread.share));
  return assembleEstimate({
    method: 'formula',
    gpu,
    allocatedBytes: peakAllocatedBytes,
    reservedBytes: peakReservedBytes,
    leastReservedBytes: least(stream, peakAllocatedBytes, peakReservedBytes),
    interval: intervalOf(
      peakAllocatedBytes,
      [peakReservedBytes, ...others],
      missed,
      fits ? roomOn(gpu) : Infinity,
    ),
    live: liveParts(stream, run.parts, peakAllocatedAt),
    notes: [...notesOf(spread, workload, gpu), ...model.notes, ...scoreNotes(model)],
  });
}

/**
 * Under a cap the allocator gives cached segments back and tries again. Caps are tried from above, in
 * even steps towards what is allocated at the peak; the last that works before one fails is taken.
 */
function least(stream: EventStream, allocatedBytes: number, reservedBytes: number): number {
  const step = (reservedBytes - allocatedBytes) / leastSteps;
  let works = reservedBytes;
  for (let number = 1; number < leastSteps; number += 1) {
    const allowedBytes = roundUp(reservedBytes - number * step, segmentStep);
    if (replay(stream, { allowedBytes }).outOfMemory !== undefined) break;
    works = allowedBytes;
  }
  return works;
}

/**
 * It cannot be below what is live, nor above what the card has where the job fits; how much lies unused
 * depends on the order of events.
 */
function intervalOf(
  allocatedBytes: number,
  reserved: readonly number[],
  missed: number,
  roomBytes: number,
): Estimate['interval'] {
  const [likely = 0] = reserved;
  const unused = likely - allocatedBytes;
  return {
    lowBytes: Math.max(0, Math.min(allocatedBytes, ...reserved) - missed),
    highBytes: Math.max(likely, Math.min(roomBytes, Math.max(...reserved) + missed + unused)),
    confidence,
  };
}

/** What was live right after an event, by what it is for. */
function liveParts(
  { kind, slot, bytes, slots }: EventStream,
  partOf: readonly Part[],
  at: number,
): ReadonlyMap<Part, number> {
  const held = new Float64Array(slots);
  for (let event = 0; event <= at; event += 1) {
    const place = slot[event] ?? 0;
    if (kind[event] === eventKind.alloc) held[place] = roundUp(bytes[event] ?? 0, smallestBlock);
    else if (kind[event] === eventKind.free) held[place] = 0;
  }
  const sums = new Map<Part, number>();
  for (const [place, size] of held.entries()) {
    const part = partOf[place] ?? 'activations';
    if (size > 0) sums.set(part, (sums.get(part) ?? 0) + size);
  }
  return sums;
}

const evidenceWords = {
  measured: 'This family was checked against runs on an H200.',
  traced:
    'This family was checked against traces of its code, not on a GPU, so the interval is wider.',
  read: 'This was worked out from the code alone, so the interval is wide.',
  generic:
    'This family has no formula of its own; a usual model of these sizes was taken, so the interval is wide.',
} as const;

function notesOf(spread: Spread, workload: Workload, gpu: Gpu): string[] {
  const notes = [
    `Estimated from the shapes of the model, op by op as transformers 5 runs it. ${evidenceWords[spread.evidence]}`,
    contextNote(gpu),
  ];
  if (workload.quantization === 'int4_offload') {
    notes.push('As if every layer were on the GPU; those that wait on the host take less.');
  }
  return notes;
}

function scoreNotes({ writtenScores }: KnownModel): readonly string[] {
  if (writtenScores !== 'unknown') return [];
  return [
    'Its config does not say whether its attention keeps a score for each pair of tokens; the interval has room for them.',
  ];
}
