import type { KnownModel } from '../model/types.js';
import type { Gpu } from './cards/gpu-table.js';
import { knownEstimate } from './formula/known-estimate.js';
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
  | { readonly kind: 'trace'; readonly trace: Trace; readonly gpu: Gpu };

/** Who does that work: this thread, or threads of their own. */
export type EstimateWork = (task: EstimateTask, signal?: AbortSignal) => Promise<Estimate>;

/** For programs that have nothing else to do meanwhile. */
export const inThisThread: EstimateWork = async (task) =>
  task.kind === 'formula'
    ? knownEstimate(task.model, task.workload, task.gpu)
    : tracedEstimate(task.trace, task.gpu);
