import { totalmem } from 'node:os';
import type { Settings } from '../config/settings.js';
import type { Discovery } from '../device/discover.js';
import type { Estimate } from '../estimate/contract.js';
import { answerEstimate } from '../plan/answers/answer-estimate.js';
import { answerPlan, type PlanDocument } from '../plan/answers/answer-plan.js';
import { type AnswerMachine, chosenGpu } from '../plan/answers/machine.js';
import type { PlanAnswerRequest, WorkloadRequest } from '../plan/answers/workload-request.js';
import { gpusAmong } from './gpus-here.js';
import type { CliIo } from './io.js';

/** Estimates and plans as the server and the daemon ask for them. */
export interface ServeAnswers {
  estimate(request: WorkloadRequest, signal: AbortSignal): Promise<Estimate>;
  plan(request: PlanAnswerRequest, signal: AbortSignal): Promise<PlanDocument>;
  /** Settings with which a job takes no more of a device than this, all in all. */
  planWithin(
    request: WorkloadRequest,
    budgetBytes: number,
    signal: AbortSignal,
  ): Promise<PlanDocument>;
}

export function serveAnswers(
  settings: Settings,
  discovery: Discovery,
  { environment, folder }: Pick<CliIo, 'environment' | 'folder'>,
  python: string | undefined,
): ServeAnswers {
  const machine: AnswerMachine = {
    environment,
    folder,
    python,
    gpus: settings.gpus,
    gpusHere: () => gpusAmong(discovery.devices),
    hostBytes: totalmem(),
  };
  return {
    estimate: (request, signal) => answerEstimate(request, { ...machine, signal }),
    plan: (request, signal) => answerPlan(request, { ...machine, signal }),
    async planWithin(request, budgetBytes, signal) {
      const { gpu } = await chosenGpu(request.gpu, machine);
      // The context is no part of what a plan shares out.
      const memoryBytes = Math.max(1, budgetBytes - gpu.context.bytes);
      return answerPlan({ ...request, memoryBytes }, { ...machine, signal });
    },
  };
}
