import type { WorkloadRequest } from '../../plan/answers/workload-request.js';

/** What `POST /plan` takes beside the workload. */
export interface PlanAsked extends WorkloadRequest {
  readonly memoryBytes?: number | undefined;
  readonly gpus?: number | undefined;
  readonly maxBatch?: boolean | undefined;
}

/** Who makes estimates and plans: what `plimsoll estimate --json` and `plan --json` answer. */
export interface Answers {
  estimate(request: WorkloadRequest, signal: AbortSignal): Promise<object>;
  plan(request: PlanAsked, signal: AbortSignal): Promise<object>;
}
