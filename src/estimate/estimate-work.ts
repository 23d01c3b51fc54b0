import { dirname, join } from 'node:path';
import { readModel } from '../model/read-model.js';
import type { KnownModel, Model } from '../model/types.js';
import type { Gpu } from './cards/gpu-table.js';
import { knownEstimate } from './formula/known-estimate.js';
import { type FindCapacity, type LeastCapacity, safeCapacity } from './least-capacity.js';
import type { Parallel } from './parallel.js';
import type { EventStream } from './trace/event-stream.js';
import type { Trace } from './trace/trace-file.js';
import { tracedEstimate } from './trace/traced-estimate.js';
import type { Estimate, Workload } from './types.js';

/** One piece of work that keeps a core busy: some tenths of a second, for large models many seconds. */
export type EstimateTask =
  | {
      readonly kind: 'formula';
      readonly model: KnownModel;
      readonly workload: Workload;
      readonly gpu: Gpu;
    }
  | {
      readonly kind: 'trace';
      readonly trace: Trace;
      readonly gpu: Gpu;
      /** How the job that was traced is spread over GPUs. */
      readonly parallel?: Parallel | undefined;
    };

/** A model of 2,000 layers takes some hundredths of a second to describe; a long header takes more. */
export interface ReadTask {
  readonly kind: 'read';
  readonly path: string;
}

/** The part of an estimate that a second core can do: with a million events it takes some seconds. */
export interface LeastCapacityTask {
  readonly kind: 'least-capacity';
  readonly stream: EventStream;
  /** The most that was granted without a limit. */
  readonly uncappedBytes: number;
}

/** Events. A shorter one is done before another thread has started. */
const longStream = 100_000;

export type AnyTask = EstimateTask | ReadTask | LeastCapacityTask;
export type AnyAnswer = Estimate | ReadSource | LeastCapacity;

/** Who does that work: this thread, or threads of their own. */
export interface EstimateWork {
  (task: EstimateTask, signal?: AbortSignal): Promise<Estimate>;
  (task: ReadTask, signal?: AbortSignal): Promise<ReadSource>;
  (task: LeastCapacityTask, signal?: AbortSignal): Promise<LeastCapacity>;
}

/** For programs that have nothing else to do meanwhile. */
export function inThisThread(task: EstimateTask): Promise<Estimate>;
export function inThisThread(task: ReadTask): Promise<ReadSource>;
export function inThisThread(task: LeastCapacityTask): Promise<LeastCapacity>;
export function inThisThread(task: AnyTask): Promise<AnyAnswer>;
export function inThisThread(task: AnyTask): Promise<AnyAnswer> {
  return answerOf(task, safeCapacity);
}

/** The same, where another thread may find the least capacity meanwhile. */
export async function inTwoThreads(task: AnyTask, beside: EstimateWork): Promise<AnyAnswer> {
  return answerOf(task, (stream, uncappedBytes) =>
    stream.length < longStream
      ? safeCapacity(stream, uncappedBytes)
      : beside({ kind: 'least-capacity', stream, uncappedBytes }),
  );
}

async function answerOf(task: AnyTask, findCapacity: FindCapacity): Promise<AnyAnswer> {
  if (task.kind === 'read') return readSource(task.path);
  if (task.kind === 'trace')
    return tracedEstimate(task.trace, task.gpu, task.parallel, findCapacity);
  if (task.kind === 'least-capacity') return safeCapacity(task.stream, task.uncappedBytes);
  return knownEstimate(task.model, task.workload, task.gpu);
}

/** A model that was read, and the config from which Python can build it, where there is one. */
export interface ReadSource {
  readonly model: Model;
  readonly config?: string;
}

/**
 * Reads a model, and finds the config that Python would build it from. Weights of GGUF have none:
 * what runs them computes with the quantized weights, and a config tells nothing of those.
 *
 * @example
 * await readSource('models/gpt2/model.safetensors'); // { model, config: 'models/gpt2/config.json' }
 */
export async function readSource(path: string): Promise<ReadSource> {
  const model = await readModel(path);
  const { weights, description } = model;
  if (weights?.format === 'gguf') return { model };
  if (weights === undefined && /\.json$/i.test(path)) return { model, config: path };
  // Only a description that came from a config names what it describes.
  if (description.modelType === 'unknown') return { model };
  const isFile = /\.(safetensors|json)$/i.test(path);
  return { model, config: join(isFile ? dirname(path) : path, 'config.json') };
}
