import type { Family, KnownModel } from '../../model/model.js';
import { MiB } from '../../units/bytes.js';
import { roundUp, segmentStep } from '../allocator/settings.js';
import { assembleEstimate, contextNote, otherReservedPeaks } from '../assemble.js';
import { replayOn, roomOn } from '../cards/card-limit.js';
import type { Gpu } from '../cards/gpu-table.js';
import { replay } from '../trace/event-replay.js';
import { type EventStream, eventKind } from '../trace/event-stream.js';
import type { Estimate, Optimizer, Part, Workload } from '../types.js';
import { NoFormula, packingOf } from './checks.js';
import type { Built } from './families/context.js';
import { familyBuilds } from './families/registry.js';
import { columnSumScratch } from './ops/linear.js';
import { Net, type Packing, type Parameter } from './run/net.js';
import { type Block, Recorder, tooLarge } from './run/recorder.js';
import { bytesIn, Tape, type Tensor } from './run/tape.js';

/** Segments come in whole steps, and libraries load a little more than is known. */
const missedBytes = 64 * MiB;
/** How finely the least capacity is looked for. */
const leastSteps = 8;
const confidence = 0.95;
const smallestBlock = 512;

/**
 * Estimates a workload of a known family: it runs every op, and replays the requests on the
 * simulated allocator. Throws `NoFormula` if a part of the model is unknown.
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

/** Returns the live bytes right after an event, by part. */
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

interface DryRun {
  readonly stream: EventStream;
  /** The part of each request. */
  readonly parts: readonly Part[];
  /** Parameters that were built; the adapters are not among them. */
  readonly parameters: number;
}

/** Builds a model and takes a few steps, op by op, without any numbers. */
function dryRun(model: KnownModel, workload: Workload, gpu: Gpu, packing?: Packing): DryRun {
  const training = workload.mode === 'train';
  const recorder = new Recorder();
  const tape = new Tape(recorder, training);
  const halves = workload.quantization === 'fp16';
  const autocasts = workload.precision.startsWith('amp-');
  const net = new Net(tape, {
    training,
    width: (workload.precision === 'fp32' || autocasts) && !halves ? 4 : 2,
    autocast: autocasts ? 2 : undefined,
    checkpointing: workload.checkpointing,
    keepsOutputs: workload.keep === 'outputs',
    loraRank: training ? workload.loraRank : undefined,
    packing,
    workspaceBytes: gpu.workspaceBytes,
    fusedAttention: hasFusedAttention(gpu),
    writtenScores: model.writtenScores === 'unknown' ? undefined : model.writtenScores,
  });
  const built = familyBuilds[model.family]({ net, model, workload });
  const own = net.parameters.filter(({ adapter }) => !adapter);
  const parameters = own.reduce((sum, { elements }) => sum + elements, 0);
  recorder.ready();
  runSteps(net, built, workload.optimizer, workload.accumulation);
  return { ...recorder.finish(), parameters };
}

/** Flash attention runs on Ampere and later, and on AMD's cards for data centres. */
function hasFusedAttention({ vendor, capability }: Gpu): boolean {
  return vendor === 'amd' || capability === 'unknown' || Number.parseFloat(capability) >= 8;
}

/** States of the optimizer appear in the first step, so that the second or third is the peak. */
const steps = 3;
/** With gradients that are added up: two batches for each step show all that more would. */
const accumulatedBatches = 2;

/** A few steps of training or inference; the last step's batch lives until the next is there. */
function runSteps(net: Net, built: Built, optimizer: Optimizer, accumulation = 1): void {
  const { tape, settings } = net;
  const { recorder } = tape;
  const updates = settings.training ? new OptimizerSteps(net, optimizer) : undefined;
  let held: Tensor[] = [];
  const each = accumulation > 1 && settings.training ? accumulatedBatches : 1;
  for (let step = 1; step <= steps * each; step += 1) {
    recorder.part = 'activations';
    const batch = built.batch();
    for (const tensor of held) tape.drop(tensor);
    held = batch.map((tensor) => tape.alias(tensor));
    tape.scope(() => {
      for (const tensor of batch) tape.own(Object.assign(tensor, { passing: true }));
      const answer = built.forward(batch);
      if (!settings.training) net.putOut(answer);
      net.replaceOutput();
      net.forgetCasts();
      if (updates !== undefined) {
        recorder.part = 'temporary';
        tape.backward(answer);
        net.forgetCasts();
        if (step % each === 0) {
          updates.step();
          updates.zero();
        } else updates.keepGradients();
      }
      tape.drop(answer);
      net.endStep();
      return batch[0] ?? answer;
    });
  }
}

/** bitsandbytes keeps smaller tensors in 32 bits, and a scale for each block of the others. */
const smallestQuantized = 4096;
const quantizedBlock = 256;

/** One step after another; the first makes the states. */
class OptimizerSteps {
  readonly #net: Net;
  readonly #kind: Optimizer;
  readonly #trained: readonly Parameter[];
  #started = false;

  constructor(net: Net, kind: Optimizer) {
    this.#net = net;
    this.#kind = kind;
    this.#trained = net.parameters.filter(({ source }) => source !== undefined);
  }

  step(): void {
    const { recorder } = this.#net.tape;
    recorder.part = 'temporary';
    if (!this.#started) this.#start();
    this.#started = true;
    if (this.#kind === 'adafactor') {
      for (const parameter of this.#trained) this.#factored(parameter);
    }
    const copies = Array.from({ length: stepCopies[this.#kind] }, () => this.#trained.map(bytesIn));
    recorder.scratch(copies.flat());
  }

  /** Gradients go before the next step begins. */
  zero(): void {
    for (const { source } of this.#trained) {
      for (const block of [source?.collected, source?.earlier]) {
        if (block !== undefined) this.#net.tape.recorder.drop(block);
      }
      if (source !== undefined) Object.assign(source, { collected: undefined, earlier: undefined });
    }
  }

  /** Gradients stay for the next batch of the same step. */
  keepGradients(): void {
    for (const { source } of this.#trained) {
      if (source?.collected === undefined) continue;
      source.earlier = source.collected;
      source.collected = undefined;
    }
  }

  #start(): void {
    for (const parameter of this.#trained) {
      for (const bytes of stateSizes[this.#kind](parameter)) this.#keep(bytes);
    }
  }

  #keep(bytes: number): Block {
    return this.#net.tape.recorder.take(bytes, 'optimizer');
  }

  /** One tensor after another; its whole estimate of the variance is there for a moment. */
  #factored(parameter: Parameter): void {
    const { recorder } = this.#net.tape;
    const whole = bytesIn(parameter);
    const columns = parameter.shape.at(-1) ?? 1;
    if (parameter.shape.length < 2) return recorder.scratch([whole, whole]);
    // The norm of each column, then the whole.
    recorder.scratch(columnSumScratch(parameter.elements / columns, columns));
    recorder.scratch([whole]);
  }
}

/**
 * Copies of all parameters that a step makes for a moment: PyTorch takes the square root (or the
 * absolute value) of all of them at once. Adagrad and Adadelta need the numerator beside it. What is
 * fused, or works in place, makes none.
 */
const stepCopies: Readonly<Record<Optimizer, number>> = {
  adamw: 1,
  'adamw-fused': 0,
  'adamw-8bit': 0,
  adam: 1,
  'adam-fused': 0,
  adamax: 1,
  nadam: 1,
  radam: 1,
  rmsprop: 1,
  adagrad: 2,
  adadelta: 2,
  adafactor: 0,
  sgd: 0,
  'sgd-momentum': 0,
};

const oneState = (parameter: Parameter) => [bytesIn(parameter)];
const twoStates = (parameter: Parameter) => [bytesIn(parameter), bytesIn(parameter)];
/** Step counters of a fused optimizer live on the GPU. */
const fusedStates = (parameter: Parameter) => [4, ...twoStates(parameter)];

/** Bytes of each state tensor of one parameter. */
const stateSizes: Readonly<Record<Optimizer, (parameter: Parameter) => readonly number[]>> = {
  adamw: twoStates,
  'adamw-fused': fusedStates,
  adam: twoStates,
  'adam-fused': fusedStates,
  adamax: twoStates,
  nadam: twoStates,
  radam: twoStates,
  rmsprop: oneState,
  adagrad: oneState,
  adadelta: twoStates,
  sgd: () => [],
  'sgd-momentum': oneState,
  adafactor: ({ shape, elements, width }) => {
    if (shape.length < 2) return [elements * width];
    const columns = shape.at(-1) ?? 1;
    const rows = shape.at(-2) ?? 1;
    return [(elements / columns) * width, (elements / rows) * width];
  },
  'adamw-8bit': ({ elements }) => {
    if (elements < smallestQuantized) return [elements * 4, elements * 4];
    const scales = Math.ceil(elements / quantizedBlock) * 4;
    return [elements, scales, elements, scales];
  },
};

/**
 * How far the ops of a family were checked. `measured`: against runs on an H200. `traced`: against
 * traces of the real code, which agree with such runs. `read`: against the code alone.
 */
type Evidence = 'measured' | 'traced' | 'read' | 'generic';

const evidence: Readonly<Record<Family, Evidence>> = {
  llama: 'measured',
  mistral: 'measured',
  qwen2: 'measured',
  qwen3: 'traced',
  qwen2_moe: 'traced',
  qwen3_moe: 'traced',
  mixtral: 'traced',
  gemma: 'traced',
  gemma2: 'traced',
  gemma3: 'traced',
  phi: 'traced',
  phi3: 'traced',
  gpt2: 'measured',
  gpt_neox: 'traced',
  opt: 'measured',
  bloom: 'traced',
  falcon: 'traced',
  deepseek_v2: 'traced',
  deepseek_v3: 'traced',
  bert: 'measured',
  roberta: 'traced',
  distilbert: 'measured',
  t5: 'measured',
  vit: 'measured',
  swin: 'measured',
  convnext: 'traced',
  whisper: 'traced',
  wav2vec2: 'traced',
  clip: 'read',
};

/** Allowance for bytes that the ops miss or overstate, as a share of the allocated bytes. */
const missedShares: Readonly<Record<Evidence, number>> = {
  measured: 0.05,
  traced: 0.1,
  read: 0.3,
  generic: 0.25,
};

interface Spread {
  readonly evidence: Evidence;
  readonly share: number;
}

/** How far the truth may lie from what the ops add up to, before the allocator's own part. */
export function spreadOf(
  { family, generic, kind }: Pick<KnownModel, 'family' | 'generic' | 'kind'>,
  workload: Workload,
): Spread {
  if (generic === true) {
    // Encoders differ more in how they see positions: those traced were up to 21 % off.
    const share = kind === 'encoder' ? 0.35 : missedShares.generic;
    return { evidence: 'generic', share };
  }
  const { quantization, loraRank } = workload;
  const packed = quantization !== undefined && quantization !== 'fp16';
  const own = evidence[family];
  // Kernels of bitsandbytes were read, not run; adapters were traced.
  if (packed) return { evidence: 'read', share: Math.max(0.15, missedShares[own]) };
  if (loraRank !== undefined && own === 'measured') {
    return { evidence: 'traced', share: missedShares.traced };
  }
  return { evidence: own, share: missedShares[own] };
}
