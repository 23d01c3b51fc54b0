import type { KnownModel, Model } from '../../model/types.js';
import type { Gpu } from '../cards/gpu-table.js';
import { type EstimateWork, inThisThread } from '../estimate-work.js';
import type { Estimate, Workload } from '../types.js';
import { callWording, type Wording } from '../wording.js';
import { checkWorkload } from './checks.js';
import { ggufEstimate } from './gguf-estimate.js';
import { knownEstimate } from './known-estimate.js';
import { orTraceInstead, traceInstead } from './no-formula.js';
import { weightsOnlyEstimate } from './weights-only.js';

/**
 * What a workload needs, from the shapes of its model alone: no Python, no GPU. Every op of a known
 * family is gone through as PyTorch would run it, and what it asks for is fed to the simulated
 * allocator. Throws a `Failure` with what is missing where nothing honest can be said.
 *
 * @example
 * const model = await readModel('config.json');
 * const { peak, interval } = formulaEstimate(model, workload, findGpu('h200'));
 * peak.reservedBytes;
 */
export function formulaEstimate(
  model: Model,
  workload: Workload,
  gpu: Gpu,
  wording: Wording = callWording,
): Estimate {
  const found = withoutOps(model, workload, gpu, wording);
  if ('method' in found) return found;
  return orTraceInstead(() => knownEstimate(found, workload, gpu), wording);
}

/** The same, with the part that takes its time done by `work`. */
export async function formulaAnswer(
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

/** What is answered at once, or the model whose ops must be gone through. */
function withoutOps(
  { description, weights }: Model,
  workload: Workload,
  gpu: Gpu,
  wording: Wording,
): Estimate | KnownModel {
  if (weights?.format === 'gguf') {
    return ggufEstimate(description, weights, workload, gpu, wording);
  }
  if (description.family === 'unknown') {
    return weightsOnlyEstimate(description, weights, workload, gpu, wording);
  }
  checkWorkload(description, workload, wording);
  return description;
}
