/** What travels between the server and this page: the types of the daemon, as they are. */

import type { ServeRoom } from '../../../src/estimate/serving/serve-estimate.js';
import type { Estimate } from '../../../src/estimate/types.js';
import type { Plan } from '../../../src/plan/fit/types.js';
import type { FromPretrainedArguments } from '../../../src/plan/quantization/bits-and-bytes.js';
import type { EstimateGpu, Recommended } from '../../../src/report/estimate-words.js';
import type { PlanBudgetWords, SharedOut } from '../../../src/report/plan-words.js';

export type {
  Fleet,
  FleetDevice,
  FleetHistory,
  FleetJob,
  FleetLeak,
  FleetNode,
  FleetRank,
  FleetTraining,
} from '../../../src/fleet/types.js';
export type {
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobHistory,
  JobRequest,
  JobSummary,
  JobView,
} from '../../../src/jobs/daemon/types.js';
export type { JobState } from '../../../src/jobs/types.js';
export type {
  Assumptions,
  KnownNames,
  WorkloadRequest,
} from '../../../src/plan/answers/workload-request.js';
export type { Attempt, ClimbedRung } from '../../../src/run/types.js';
export type { Provenance } from '../../../src/units/known.js';
export type { Alert, Forecast } from '../../../src/watch/types.js';

/** What `POST /estimate` answers. */
export interface EstimateDocument extends Estimate {
  readonly gpu: EstimateGpu;
  readonly recommendedQuantization?: Recommended;
  /** Where it is for a server of the model. */
  readonly serve?: ServeRoom;
}

/** What `POST /plan` answers. */
export interface PlanDocument extends Plan {
  readonly budget: PlanBudgetWords;
  /** How to load the model, where that matters. */
  readonly loading?: FromPretrainedArguments;
  /** How several GPUs share the training, where that was asked or is needed. */
  readonly sharding?: SharedOut;
}
