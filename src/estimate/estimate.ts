import { setImmediate as turn } from 'node:timers/promises';
import { Failure } from '../failure.js';
import { describeConfig } from '../model/config/describe-config.js';
import { usualDecoder } from '../model/names/usual-decoder.js';
import type { Model, ModelDescription, StackInput } from '../model/types.js';
import { checkArguments, object, oneOf } from '../units/arguments.js';
import { formatCount } from '../units/words.js';
import type { Gpu } from './cards/gpu-table.js';
import { type EstimateWork, inThisThread } from './estimate-work.js';
import { checkQuantization, checkWorkload, traceInstead } from './formula/checks.js';
import { targetLength } from './formula/families/context.js';
import { withoutOps } from './formula/formula-estimate.js';
import { type ModelSource, typeEstimate } from './model-source.js';
import { pythonTrace, type TraceSource } from './trace/python-trace.js';
import type { TraceRunner } from './trace/warm-tracer.js';
import type { Estimate, Part, Workload } from './types.js';
import { callWording, type Wording } from './wording.js';

export const estimateMethods = ['auto', 'trace', 'formula'] as const;
export type EstimateMethod = (typeof estimateMethods)[number];

export interface EstimateRequest {
  readonly source: ModelSource;
  readonly workload: Workload;
  readonly gpu: Gpu;
  /** `auto` traces where it can; `trace` never falls back; `formula` never starts Python. */
  readonly method: EstimateMethod;
}

const requestRules = {
  source: object,
  workload: object,
  gpu: object,
  method: oneOf(estimateMethods),
};

/** What an estimate may touch of the machine it is made on. */
export interface EstimateMachine {
  /** The Python to trace with; otherwise the active one. */
  readonly python?: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
  /** Told what goes on, for a person who waits, and how far it is, 0 to 1, where that is known. */
  readonly onProgress?: ((text: string, share?: number) => void) | undefined;
  /** Who does the work that keeps a core busy; this thread where it is left out. */
  readonly work?: EstimateWork | undefined;
  /** A tracer that is loaded already. */
  readonly warm?: TraceRunner | undefined;
  /** How errors and notes name what was asked for; as a call does where it is left out. */
  readonly wording?: Wording | undefined;
}

/**
 * What a workload needs on one GPU, found without one. Bad input is told at once, before Python is
 * started; under `auto` whatever keeps a model from being traced leads to the formula, with the
 * reason in the notes. A script that fails is an error: nothing else knows what it computes.
 *
 * @example
 * const { peak } = await estimate(
 *   { source: { kind: 'path', path: 'gpt2' }, workload, gpu: findGpu('h100'), method: 'auto' },
 *   { environment: process.env, folder: process.cwd() },
 * );
 * peak.leastCapacityBytes;
 */
export async function estimate(
  request: EstimateRequest,
  machine: EstimateMachine,
): Promise<Estimate> {
  checkArguments('estimate', { request, machine }, { request: object, machine: object });
  checkArguments('estimate', { ...request }, requestRules);
  const { source, method } = request;
  const { wording = callWording, work = inThisThread, signal } = machine;
  // Plans and savings ask for many in a row, each some tenths of a second where a formula answers.
  await turn();
  if (request.workload.parallel !== undefined) checkTraced(source, method, wording);
  if (source.kind === 'type') {
    if (method === 'trace') throw notTraced();
    return typeEstimate(source, request.workload, request.gpu);
  }
  if (source.kind === 'parameters') {
    if (method === 'trace') throw notTraced();
    const model = usualModel(source.parameters);
    checkInput(model.description, request.workload, false, wording);
    return parameterRule(source.parameters, request.workload, request.gpu, machine);
  }
  if (source.kind !== 'path') {
    if (method === 'formula') throw onlyTraced(source, wording);
    return traced(source, request, machine);
  }
  const { model, config } = await work({ kind: 'read', path: source.path }, signal);
  const willTrace = config !== undefined && method !== 'formula';
  checkInput(model.description, request.workload, willTrace, wording);
  const found = await ofModel(model, config, request, machine);
  const assumed = assumedNotes(found, model.description, request.workload, wording);
  const noted = withNotes(found, inputNotes(model.description, request.workload));
  return { ...noted, notes: [...noted.notes, ...assumed] };
}

async function ofModel(
  model: Model,
  config: string | undefined,
  request: EstimateRequest,
  machine: EstimateMachine,
): Promise<Estimate> {
  const { workload, gpu, method } = request;
  const { wording = callWording } = machine;
  const byFormula = () => formulaAnswer(model, workload, gpu, machine);
  // PyTorch does not run GGUF, so there is nothing to trace it with.
  const never = model.weights?.format === 'gguf';
  if (method === 'formula' || (method === 'auto' && never)) {
    return byFormula();
  }
  try {
    if (config === undefined) throw noConfig(model, wording);
    return await traced({ kind: 'config', path: config }, request, machine);
  } catch (error) {
    const alone = workload.parallel === undefined;
    if (method === 'trace' || !alone || !canFallBack(error)) throw error;
    const found = await orBoth(error, byFormula);
    // What could be installed is worth saying; what cannot be helped is not.
    const next = error.kind === 'missing' ? ` ${error.next}` : '';
    return withNotes(found, [`Not traced: ${error.fact}${next}`]);
  }
}

async function traced(
  source: TraceSource,
  { workload, gpu }: EstimateRequest,
  machine: EstimateMachine,
): Promise<Estimate> {
  const { work = inThisThread, signal } = machine;
  const trace = await pythonTrace(source, workload, { ...machine, gpu });
  return work({ kind: 'trace', trace, gpu, parallel: workload.parallel }, signal);
}

function noConfig(model: Model, { example }: Wording): Failure {
  const gguf = model.weights?.format === 'gguf';
  return new Failure({
    kind: 'input',
    code: 'no-config',
    fact: gguf
      ? `${model.path} is GGUF, which PyTorch does not run.`
      : `There is no config.json beside ${model.path}, so what it computes cannot be traced.`,
    next: gguf ? `${example('method', 'formula')} takes it.` : 'Put its config.json there.',
  });
}

/** No formula knows what a rank of many holds at its peak. */
function checkTraced(source: ModelSource, method: EstimateMethod, { name }: Wording): void {
  if (method !== 'formula' && source.kind !== 'type' && source.kind !== 'parameters') return;
  throw new Failure({
    kind: 'input',
    code: 'only-traced',
    fact: 'A job on several GPUs can only be traced.',
    next: `Name a config.json, and leave ${name('method')} out.`,
  });
}

function notTraced(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-config',
    fact: 'A rule for models of a size cannot be traced.',
    next: 'Name its config.json.',
  });
}

function onlyTraced(source: ModelSource, { name }: Wording): Failure {
  const what = source.kind === 'script' ? 'A script' : 'A model of torchvision';
  return new Failure({
    kind: 'input',
    code: 'only-traced',
    fact: `${what} can only be traced; there is no formula for what it computes.`,
    next: `Leave ${name('method')} out.`,
  });
}

/** What is wrong with the workload itself; a formula would only hide it. */
const wrongWorkload = new Set(['no-checkpointing', 'no-target', 'quantized-not-trained']);

/** An interrupted trace is no reason for another answer either. */
function canFallBack(error: unknown): error is Failure {
  return error instanceof Failure && error.kind !== 'interrupted' && !wrongWorkload.has(error.code);
}

/** Where the formula has no answer either, a person should know both reasons. */
async function orBoth(traceFailure: Failure, formula: () => Promise<Estimate>): Promise<Estimate> {
  try {
    return await formula();
  } catch (error) {
    if (!(error instanceof Failure) || error.kind === 'interrupted') throw error;
    const { kind, code, next } = traceFailure;
    const fact = `${traceFailure.fact} ${error.fact}`;
    throw new Failure({ kind, code, fact, next, cause: error });
  }
}

/** What concerns this answer most comes first. */
function withNotes(found: Estimate, notes: readonly string[]): Estimate {
  return { ...found, notes: [...notes, ...found.notes] };
}

/** What follows from the number of parameters; names round it, by a tenth at most. */
const statesOff = 0.1;
/**
 * The rest depends on width, depth, vocabulary and heads. Of the decoders of the catalogue, 95 of 100
 * lie between these shares of what the usual one takes (`parameter-rule.test.ts`).
 */
const lowShare = 0.35;
const highShare = 2.8;
const states: ReadonlySet<Part> = new Set(['weights', 'gradients', 'optimizer']);

/** The model that stands for all of that many parameters. */
export function usualModel(parameters: number): Model {
  const place = `a model of ${formatCount(parameters)} parameters`;
  return { path: place, description: describeConfig(usualDecoder(parameters), place) };
}

/**
 * What a model needs of which only the number of parameters is known: that of a usual decoder, with a
 * wide interval.
 *
 * @example
 * await parameterRule(22e9, workload, findGpu('h100'), machine);
 */
export async function parameterRule(
  parameters: number,
  workload: Workload,
  gpu: Gpu,
  machine: Parameters<typeof formulaAnswer>[3],
): Promise<Estimate> {
  const found = await formulaAnswer(usualModel(parameters), workload, gpu, machine);
  const sum = (wanted: (part: Part) => boolean) =>
    found.breakdown.reduce((total, { part, bytes }) => total + (wanted(part) ? bytes : 0), 0);
  const known = sum((part) => states.has(part));
  const rest = sum((part) => !states.has(part) && part !== 'context');
  const { reservedBytes } = found.peak;
  return {
    ...found,
    interval: {
      lowBytes: Math.round(known * (1 - statesOff) + rest * lowShare),
      highBytes: Math.max(reservedBytes, Math.round(known * (1 + statesOff) + rest * highShare)),
      confidence: found.interval.confidence,
    },
    notes: [
      `A rule: a usual decoder of ${formatCount(parameters)} parameters was taken, as nothing else of the model is known; the interval is wide. Name its config.json for a figure of your model.`,
      ...found.notes.filter((note) => !note.startsWith('Estimated from the shapes')),
    ],
  };
}

/**
 * Throws where the workload leaves out what the model needs, or cannot be run at all. Of a model of
 * unknown family the input is unknown, so a trace wants to be told either.
 */
export function checkInput(
  description: ModelDescription,
  workload: Workload,
  willTrace: boolean,
  wording: Wording,
): void {
  if (description.family !== 'unknown') {
    checkWorkload(description, workload, wording);
    return;
  }
  checkQuantization(workload, wording);
  if (!willTrace || workload.sequence !== undefined || workload.image !== undefined) return;
  throw new Failure({
    kind: 'input',
    code: 'no-sequence',
    fact: `Neither ${wording.name('seq')} nor ${wording.name('image')} was given.`,
    next: 'Say how long a sequence is, or how large an image.',
  });
}

/**
 * What would go wrong in the real run, though it takes no memory to find out.
 *
 * @example
 * inputNotes(gpt2, { ...workload, sequence: 4096 }); // ['The model has places for 1024 tokens ...']
 */
export function inputNotes(description: ModelDescription, { sequence }: Workload): string[] {
  if (description.family === 'unknown' || sequence === undefined) return [];
  const places = description.stacks.map(({ input }) => learnedPlaces(input));
  const fewest = Math.min(...places);
  if (sequence <= fewest) return [];
  return [
    `The model has places for ${fewest} tokens, fewer than ${sequence}: it would fail when run.`,
  ];
}

/** Only a table of positions runs out; rotary positions go on. */
function learnedPlaces(input: StackInput): number {
  if (input.kind !== 'tokens' || input.positions !== 'learned') return Infinity;
  return input.maxPositions === 'unknown' ? Infinity : input.maxPositions;
}

/**
 * Which loop an estimate of a config stands for, where a usual program may do otherwise: what it
 * holds between steps, and how long the labels are. A trace tells of the labels itself, since it
 * knows the class.
 *
 * @example
 * assumedNotes(found, gpt2, workload, callWording);
 * // ["Assumed: the loop keeps only the loss ..."]
 */
function assumedNotes(
  { method }: Estimate,
  description: ModelDescription,
  workload: Workload,
  { name, example }: Wording,
): string[] {
  const notes: string[] = [];
  if (workload.mode === 'train' && workload.keep === undefined) {
    notes.push(
      `Assumed: the loop keeps only the loss. One that keeps the model's outputs until the next step, as in outputs = model(**batch), needs more: ${example('keep', 'outputs')}.`,
    );
  }
  const halved = method === 'formula' && description.family === 't5';
  if (halved && workload.targetSequence === undefined) {
    const length = targetLength(workload);
    notes.push(
      `Assumed: labels of ${length} tokens, half of the input. ${name('targetSeq')} says otherwise.`,
    );
  }
  return notes;
}

/** `formulaEstimate`, with the part that takes its time done by `work`. */
async function formulaAnswer(
  model: Model,
  workload: Workload,
  gpu: Gpu,
  {
    wording = callWording,
    work = inThisThread,
    signal,
  }: {
    readonly wording?: Wording | undefined;
    readonly work?: EstimateWork | undefined;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<Estimate> {
  const found = withoutOps(model, workload, gpu, wording);
  if ('method' in found) return found;
  try {
    return await work({ kind: 'formula', model: found, workload, gpu }, signal);
  } catch (error) {
    throw traceInstead(error, wording);
  }
}
