import { readFileSync, statSync } from 'node:fs';
import type { Gpu } from '../../../estimate/cards/gpu-table.js';
import type { ReadSource } from '../../../estimate/estimate-work.js';
import { inThisThread } from '../../../estimate/estimate-work.js';
import { estimateProgram } from '../../../estimate/program-estimate.js';
import { generateFormula } from '../../../estimate/serving/generate-formula.js';
import type { CacheType } from '../../../estimate/serving/kv-cache.js';
import {
  longestRequest,
  type ServeRoom,
  serveEstimate,
  writerOf,
} from '../../../estimate/serving/serve-estimate.js';
import { pythonProgram } from '../../../estimate/trace/python-trace.js';
import type { Estimate } from '../../../estimate/types.js';
import { Failure } from '../../../failure.js';
import { MiB } from '../../../units/bytes.js';
import { cardOfEstimate, type EstimateDocument } from '../answer-estimate.js';
import { type AnswerMachine, chosenGpu } from '../machine.js';
import type { WorkloadRequest } from '../workload-request.js';
import { type GenerateAsked, readServing, type ServeAsked } from './serving-request.js';

/** With `serve`, where it is for a server. */
export interface ServingDocument extends EstimateDocument {
  readonly serve?: ServeRoom;
}

/** vLLM's own. */
const usualUtilization = 0.9;

/**
 * What `plimsoll estimate --mode generate` and `--mode serve` answer.
 *
 * @example
 * const request = { mode: 'serve', model: '/models/llama', gpu: 'h100', maxModelLen: 8192 };
 * (await answerServing(request, machine)).serve?.requests;
 */
export async function answerServing(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<ServingDocument> {
  const asked = readServing(request, machine.wording);
  const { gpu, notes } = await chosenGpu(asked.gpu, machine);
  const { work = inThisThread, signal } = machine;
  const read = await work({ kind: 'read', path: asked.model }, signal);
  const found =
    asked.mode === 'serve'
      ? serving(asked, read, gpu)
      : await generating(asked, read, gpu, machine);
  return { ...found, gpu: cardOfEstimate(gpu), notes: [...notes, ...found.notes] };
}

/** The values that both modes take for what a request leaves out. */
export async function servingAssumptions(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<Partial<WorkloadRequest>> {
  const asked = readServing(request, machine.wording);
  const { gpu } = await chosenGpu(asked.gpu, machine);
  if (asked.mode === 'generate') {
    return { beams: asked.beams, precision: asked.precision, gpu: gpu.name };
  }
  const { work = inThisThread, signal } = machine;
  const { utilization, cacheType, engine, maxModelLen, precision } = filled(
    asked,
    await work({ kind: 'read', path: asked.model }, signal),
  );
  const limits = { maxModelLen, gpuMemoryUtilization: utilization };
  return { ...limits, engine, precision, gpu: gpu.name, kvPrecision: cacheType };
}

function serving(asked: ServeAsked, read: ReadSource, gpu: Gpu) {
  const { description, weights } = read.model;
  return serveEstimate(writerOf(description), weights, filled(asked, read), gpu);
}

/** What a server is asked for, and what follows from the model. */
function filled(asked: ServeAsked, { model, config }: ReadSource) {
  const known = writerOf(model.description);
  const precision = asked.precision ?? (known.dtype === 'float16' ? 'fp16' : 'bf16');
  const isGguf = model.weights?.format === 'gguf';
  return {
    engine: asked.engine ?? (isGguf ? 'llama.cpp' : 'vllm'),
    maxModelLen: asked.maxModelLen ?? longestRequest(known),
    utilization: asked.utilization ?? usualUtilization,
    precision,
    cacheType:
      asked.kvPrecision ?? (config === undefined ? undefined : cacheTypeIn(config)) ?? precision,
    quantization: asked.quantization,
  } as const;
}

/** Traced as a program where it can be; calculated where Python or its packages are missing. */
async function generating(
  asked: GenerateAsked,
  { model, config }: ReadSource,
  gpu: Gpu,
  machine: AnswerMachine,
): Promise<Estimate> {
  const calculate = () => generateFormula(writerOf(model.description), asked, gpu);
  if (asked.method === 'formula' || (config === undefined && asked.method === 'auto')) {
    return calculate();
  }
  if (config === undefined) throw noConfig(asked.model);
  const { batch, prompt, newTokens, beams, precision } = asked;
  const counts = { batch, prompt, new: newTokens, beams };
  const words = Object.entries(counts).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const program = ['-m', 'plimsoll_trace.generating', '--config', config];
  try {
    return await estimateProgram(
      { command: ['python', ...program, ...words, '--precision', precision], gpu },
      { ...machine, python: pythonProgram(machine.python, machine.environment) },
    );
  } catch (error) {
    if (asked.method === 'trace' || !(error instanceof Failure) || error.kind === 'interrupted') {
      throw error;
    }
    const found = calculate();
    return {
      ...found,
      notes: [`By formula, as it could not be traced: ${error.fact}`, ...found.notes],
    };
  }
}

function noConfig(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-config',
    fact: `${path} has no config.json, so no model can be built of it.`,
    next: 'Name the folder with its config.json, or take the method "formula".',
  });
}

/** A config is a page of text; the largest known is under 2 MB. */
const largestBytes = 16 * MiB;

/**
 * In what a config says that keys and values are to be cached; undefined where it says nothing. The
 * file was read as a model before, so what is wrong with it was told there.
 *
 * @example
 * cacheTypeIn('models/llama-fp8/config.json'); // 'fp8'
 */
function cacheTypeIn(config: string): CacheType | undefined {
  try {
    if (statSync(config).size > largestBytes) return undefined;
    const read: unknown = JSON.parse(readFileSync(config, 'utf8'));
    const settings = field(read, 'quantization_config');
    const bits = field(field(settings, 'kv_cache_scheme'), 'num_bits');
    const named = field(settings, 'kv_cache_quant_algo');
    return bits === 8 || named === 'FP8' ? 'fp8' : undefined;
  } catch {
    return undefined;
  }
}

function field(value: unknown, name: string): unknown {
  return Reflect.get(Object(value), name);
}
