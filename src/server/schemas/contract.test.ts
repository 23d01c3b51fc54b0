import type { z } from '@hono/zod-openapi';
import { describe, expectTypeOf, it } from 'vitest';
import type { Fleet } from '../../fleet/document.js';
import type {
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobHistory,
  JobRequest,
  JobSummary,
  JobView,
  WorkersStatus,
} from '../../jobs/daemon/types.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { eventSchema } from '../routes/event-route.js';
import type { fleetSchema } from '../routes/fleet-routes.js';
import type { workersStatusSchema } from '../routes/status-routes.js';
import type { deviceHistorySchema, deviceSchema } from './common.js';
import type { jobHistorySchema, jobRequestSchema, jobSchema, jobSummarySchema } from './jobs.js';
import type { workloadRequestSchema } from './workload.js';

/** As deep as it goes: whether a list may be changed is no question over HTTP. */
type Frozen<T> = T extends (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Frozen<T[Key]> }
    : T;

/** The daemon's answer; the server adds the version. */
type Unversioned<Schema extends z.ZodType> = Omit<z.output<Schema>, 'schema'>;

describe('what the document declares', () => {
  it('is what the daemon answers', () => {
    expectTypeOf<JobView>().toExtend<Frozen<Unversioned<typeof jobSchema>>>();
    expectTypeOf<keyof JobView>().toEqualTypeOf<keyof Unversioned<typeof jobSchema>>();
    expectTypeOf<JobSummary>().toExtend<Frozen<z.output<typeof jobSummarySchema>>>();
    expectTypeOf<keyof JobSummary>().toEqualTypeOf<keyof z.output<typeof jobSummarySchema>>();
    expectTypeOf<DeviceView>().toExtend<Frozen<z.output<typeof deviceSchema>>>();
    expectTypeOf<keyof DeviceView>().toEqualTypeOf<keyof z.output<typeof deviceSchema>>();
    expectTypeOf<DeviceHistory>().toExtend<Frozen<Unversioned<typeof deviceHistorySchema>>>();
    expectTypeOf<JobHistory>().toExtend<Frozen<Unversioned<typeof jobHistorySchema>>>();
    expectTypeOf<Fleet>().toExtend<Frozen<Unversioned<typeof fleetSchema>>>();
    expectTypeOf<keyof Fleet>().toEqualTypeOf<keyof Unversioned<typeof fleetSchema>>();
    expectTypeOf<DaemonEvent>().toExtend<Frozen<z.output<typeof eventSchema>>>();
    expectTypeOf<Frozen<z.output<typeof workersStatusSchema>>>().toExtend<WorkersStatus>();
  });

  it('is what the daemon takes', () => {
    expectTypeOf<z.output<typeof workloadRequestSchema>>().toExtend<WorkloadRequest>();
    expectTypeOf<keyof z.output<typeof workloadRequestSchema>>().toEqualTypeOf<
      keyof WorkloadRequest
    >();
    expectTypeOf<z.output<typeof jobRequestSchema>>().toExtend<JobRequest>();
    expectTypeOf<keyof z.output<typeof jobRequestSchema>>().toEqualTypeOf<keyof JobRequest>();
  });
});
