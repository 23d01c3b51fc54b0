import type { Discovery } from '../../device/discover.js';
import type { Engine } from '../../engine/engine.js';
import type { GpuEntry } from '../../estimate/cards/gpus.js';
import type { Estimate } from '../../estimate/types.js';
import type { PlanWithin } from '../../plan/answers/answer-plan.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { EnvironmentChange } from '../../plan/environment/job-environment.js';
import type { Plan } from '../../plan/fit/types.js';
import type { Clock } from '../../time/clock.js';
import type { JobVariables } from '../job-variables.js';
import type { PlacementPolicy } from '../placement.js';
import type { QuotaOf } from '../quota.js';
import type { DeviceReadingsOptions } from './devices/device-readings.js';
import type { ConcurrencyLimit } from './limit-concurrency.js';
import type { ProgramJob } from './submission/program-need.js';

export interface DaemonOptions {
  /** `$PLIMSOLL_HOME`: the store, the logs and the runs lie in it. */
  readonly home: string;
  /** Stays open; who made it closes it. */
  readonly discovery: Discovery;
  /** Closed with the daemon. */
  readonly engine: Engine;
  /** The environment in which jobs find their programs, with each job's additions; the engine has the same. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Changes of that environment, for the jobs that get it. */
  readonly environmentChanges?: readonly EnvironmentChange[] | undefined;
  /** The folder of jobs that name none. */
  readonly folder: string;
  readonly variables?: JobVariables | undefined;
  /** The share of a device that may be reserved, above 0 and up to 1. */
  readonly loadLine?: number | undefined;
  readonly policy?: PlacementPolicy | undefined;
  /** Limits for each owner; no limit if absent. */
  readonly quotaOf?: QuotaOf | undefined;
  /**
   * Without it a job with a model is refused as one that cannot be estimated. What takes time and
   * cores is done through `withLimit`; so it is with `plan`.
   */
  readonly estimate?:
    | ((
        request: WorkloadRequest,
        signal: AbortSignal,
        withLimit?: ConcurrencyLimit,
      ) => Promise<Estimate>)
    | undefined;
  /** Settings with which a workload fits a device, of those that its program can be told. */
  readonly plan?:
    | ((
        request: WorkloadRequest,
        within: PlanWithin,
        signal: AbortSignal,
        withLimit?: ConcurrencyLimit,
      ) => Promise<Plan>)
    | undefined;
  /** Estimates a program by a trace if the job states no need; without it none is traced. */
  readonly estimateProgram?:
    | ((job: ProgramJob, signal: AbortSignal, withLimit?: ConcurrencyLimit) => Promise<Estimate>)
    | undefined;
  /** How many estimates and plans have their turn at the same time; two by default. */
  readonly estimatesAtOnce?: number | undefined;
  readonly watch?: DeviceReadingsOptions['watch'] | undefined;
  /** Cards of the configuration, for what their contexts take. */
  readonly gpus?: readonly GpuEntry[] | undefined;
  /** How many are kept of the jobs that ended, of their runs' own files, and of changes. */
  readonly keep?:
    | { readonly endedJobs: number; readonly runs: number; readonly events: number }
    | undefined;
  readonly clock?: Clock | undefined;
  /** A line for the person who runs the server. */
  readonly log?: ((line: string) => void) | undefined;
}
