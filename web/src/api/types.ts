/** What travels between the server and this page: the types of the daemon, as they are. */

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
export type { WorkloadRequest } from '../../../src/plan/answers/workload-request.js';
export type { Attempt, ClimbedRung } from '../../../src/run/types.js';
export type { Provenance } from '../../../src/units/known.js';
export type { Alert, Forecast } from '../../../src/watch/types.js';
