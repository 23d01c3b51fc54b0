import type { KnownModel } from '../model/types.js';
import type { Gpu } from './cards/gpu-table.js';
import { knownEstimate } from './formula/known-estimate.js';
import { type ReadSource, readSource } from './model-source.js';
import type { Parallel } from './parallel.js';
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

/** Who does that work: this thread, or threads of their own. */
export interface EstimateWork {
  (task: EstimateTask, signal?: AbortSignal): Promise<Estimate>;
  (task: ReadTask, signal?: AbortSignal): Promise<ReadSource>;
}

/** For programs that have nothing else to do meanwhile. */
export function inThisThread(task: EstimateTask): Promise<Estimate>;
export function inThisThread(task: ReadTask): Promise<ReadSource>;
export function inThisThread(task: EstimateTask | ReadTask): Promise<Estimate | ReadSource>;
export async function inThisThread(task: EstimateTask | ReadTask): Promise<Estimate | ReadSource> {
  if (task.kind === 'read') return readSource(task.path);
  if (task.kind === 'trace') return tracedEstimate(task.trace, task.gpu, task.parallel);
  return knownEstimate(task.model, task.workload, task.gpu);
}
