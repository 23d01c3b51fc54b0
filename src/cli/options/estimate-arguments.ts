import type { WorkloadArguments } from './workload-options.js';

/** What `plimsoll estimate` takes; what was not given is absent. */
export interface EstimateArguments extends WorkloadArguments {
  readonly savings?: boolean;
  readonly verbose?: boolean;
  readonly html?: string;
  readonly json?: boolean;
}
