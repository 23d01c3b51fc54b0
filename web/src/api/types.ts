/** What travels between the server and this page: the types of the daemon, as they are. */

export type { JobState } from '../../../src/jobs/contract.js';
export type {
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobHistory,
  JobRequest,
  JobSummary,
  JobView,
} from '../../../src/jobs/daemon/contract.js';
export type { WorkloadRequest } from '../../../src/plan/answers/workload-request.js';
export type { Attempt, ClimbedRung } from '../../../src/run/contract.js';
export type { Provenance } from '../../../src/units/known.js';
export type { Alert, Forecast } from '../../../src/watch/types.js';
