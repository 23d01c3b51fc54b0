/**
 * Jobs that share devices: reservations, placement, queue, store, daemon, server.
 *
 * @example
 * import { Ledger } from 'plimsoll/jobs';
 *
 * const ledger = new Ledger([{ id: 'gpu:0', capacityBytes: 80 * 2 ** 30 }]);
 *
 * @module
 */

export { defaultSettings, type Settings } from '../config/settings.js';
export { defaultLoadLine, type LoadLineSettings, loadLineOf } from '../device/load-line.js';
export type { Engine, EngineRun, RunNews, RunOrder, RunUse } from '../engine/engine.js';
export { type LocalEngineOptions, localEngine } from '../engine/local/local-engine.js';
export { homeFolder } from '../files/folders.js';
export type { Hold } from '../jobs/admission.js';
export { type Admission, admit, type QueueSettings, type QueueState } from '../jobs/admission.js';
export { inOrder } from '../jobs/admission-order.js';
export {
  type Correction,
  correctEstimate,
  expectedSeconds,
  type MeasuredRun,
  measuredRun,
  type WorkloadIdentity,
  workloadKey,
} from '../jobs/corrections.js';
export { openDaemon } from '../jobs/daemon/open-daemon.js';
export type { DaemonOptions } from '../jobs/daemon/options.js';
export { environmentForJobs } from '../jobs/daemon/running/job-files.js';
export type {
  Daemon,
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobHistory,
  JobRequest,
  JobSummary,
  JobView,
  WorkersStatus,
} from '../jobs/daemon/types.js';
export {
  changeableSettingsOf,
  type Degraded,
  type DegradedSettings,
  degradedBy,
} from '../jobs/degraded.js';
export { type FitVerdict, judgeFit, largestOffer } from '../jobs/fit-verdict.js';
export { type JobVariables, readJobVariables } from '../jobs/job-variables.js';
export {
  type DeviceRoom,
  Ledger,
  type LedgerDevice,
  type LedgerEntry,
  type LedgerReading,
  type OpenReservation,
} from '../jobs/ledger.js';
export { type PlacementPolicy, place, placementPolicies, type Room } from '../jobs/placement.js';
export { needReasonWords } from '../jobs/reasons/is-reason.js';
export type {
  DegradedReason,
  EndReason,
  JobReason,
  NeedReason,
  RefusalReason,
  WaitingReason,
} from '../jobs/reasons/types.js';
export { type Basis } from '../jobs/reasons/types.js';
export { reasonWords, waitingReasonWords } from '../jobs/reasons/words.js';
export { type JobStore, openJobStore } from '../jobs/store/job-store.js';
export type {
  Ending,
  JobDetails,
  JobEvent,
  JobEventType,
  JobFilter,
  JobStart,
  NeedEvidence,
  NewJob,
  StoredJob,
} from '../jobs/store/records.js';
export {
  type Job,
  type JobState,
  jobStates,
  type Need,
  type Reservation,
  type RunningJob,
  type WaitingJob,
} from '../jobs/types.js';
export { turnOf, WaitingList } from '../jobs/waiting-list.js';
export { explainWaiting, type WaitingStatus } from '../jobs/waiting-reasons.js';
export { type OpenServer, openServer, type ServerOptions } from '../server/open-server.js';
export type { Answers } from '../server/routes/operation.js';
export {
  makeHome,
  openService,
  type Service,
  type ServiceOptions,
} from '../server/service/open-service.js';
