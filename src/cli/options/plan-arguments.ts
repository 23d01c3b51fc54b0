import type { ZeroStage } from '../../plan/fit/types.js';
import type { PlanFormat } from './plan-format.js';
import type { WorkloadArguments } from './workload-options.js';

/** What `plimsoll plan` takes; what was not given is absent. */
export interface PlanArguments extends WorkloadArguments {
  readonly memory?: number;
  readonly train?: boolean;
  readonly maxBatch?: boolean;
  readonly zero?: ZeroStage;
  readonly save?: boolean;
  readonly verbose?: boolean;
  readonly html?: string;
  readonly format?: PlanFormat;
  readonly json?: boolean;
}
