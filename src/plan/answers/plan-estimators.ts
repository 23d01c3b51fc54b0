import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { type EstimateMethod, estimate } from '../../estimate/estimate.js';
import type { ModelSource } from '../../estimate/model-source.js';
import type { Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import type { PlanEstimators } from '../fit/types.js';
import type { AnswerMachine } from './machine.js';
import { sourceFor } from './plan-request.js';

/** The judge is what `estimate` answers; where that takes a trace, the formula guides it. */
export function planEstimators(
  {
    source,
    gpu,
    method,
  }: {
    readonly source: ModelSource;
    readonly gpu: Gpu;
    readonly method: EstimateMethod;
  },
  machine: AnswerMachine,
): PlanEstimators {
  const { environment, folder, signal, wording, work } = machine;
  let count = 0;
  const machineFor = (workload: Workload): AnswerMachine => {
    count += 1;
    const { onProgress } = machine;
    if (onProgress === undefined) return machine;
    const what = `Estimate ${count}: ${described(workload)}`;
    onProgress(what);
    return {
      ...machine,
      onProgress: (text: string, share?: number) => onProgress(`${what}. ${text}`, share),
    };
  };
  return {
    judge: (workload) =>
      estimate(
        { source: sourceFor(source, workload), workload, gpu, method },
        machineFor(workload),
      ),
    guide:
      source.kind !== 'path' || method === 'formula'
        ? undefined
        : async (workload) => {
            try {
              const request = { source, workload, gpu, method: 'formula' } as const;
              return await estimate(request, { environment, folder, signal, wording, work });
            } catch (error) {
              // A model that no formula knows is planned by its traces alone.
              if (error instanceof Failure && error.kind !== 'interrupted') return undefined;
              throw error;
            }
          },
  };
}

function described({ batch, precision, checkpointing, loraRank }: Workload): string {
  const more = [
    ...(checkpointing ? ['checkpointing'] : []),
    ...(loraRank === undefined ? [] : ['LoRA']),
  ];
  return [`batch ${batch}`, precision, ...more].join(', ');
}
