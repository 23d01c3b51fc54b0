import { z } from '@hono/zod-openapi';
import type { Daemon, Submitter } from '../../jobs/daemon/types.js';
import { hasEnded, jobStates } from '../../jobs/types.js';
import type { Identity } from '../access/identity.js';
import { asSeenBy, requireOwn } from '../access/permissions.js';
import { serverLimits } from '../http/limits.js';
import {
  jobHistorySchema,
  jobLimitSchema,
  jobListSchema,
  jobRequestSchema,
  jobSchema,
  submittedRequestSchema,
} from '../schemas/jobs.js';
import type { ReadableFor } from './answer-routes.js';
import { jsonAnswer, jsonContent, noBody, nothing } from './answers.js';
import { countsExample, jobExample, jobRequestExample, jobSummaryExample } from './examples.js';
import { type Operation, operation } from './operation.js';

const tag = 'jobs';
export const jobIdParams = z.strictObject({
  id: z.string().min(1).max(100).openapi({ description: 'The id of a job.', example: '1' }),
});

/** Who a job belongs to, and what it runs as; a `Failure` where he may not have it run. */
export type SubmitterOf = (identity: Identity) => Promise<Submitter>;

export function jobOperations(
  daemon: Daemon,
  submitterOf: SubmitterOf,
  readable: ReadableFor,
): readonly Operation[] {
  return [
    operation({
      method: 'get',
      path: '/jobs',
      id: 'listJobs',
      tag,
      summary: 'Jobs, the newest first',
      params: nothing,
      query: z.strictObject({
        state: z
          .array(z.enum(jobStates))
          .min(1)
          .max(jobStates.length)
          .optional()
          .openapi({
            description: 'Only jobs in one of these states; commas between them.',
            param: { style: 'form', explode: false },
            example: ['waiting', 'running'],
          }),
        after: z
          .string()
          .regex(/^\d{1,15}$/)
          .optional()
          .openapi({
            description: 'Goes on behind the job with this id, in the order asked for.',
            example: '100',
          }),
        limit: z
          .int()
          .min(1)
          .max(serverLimits.jobsListed)
          .optional()
          .openapi({
            description: `At most so many; ${serverLimits.jobsListed} where it is left out. For more, ask again with after=, the last id that came.`,
            example: 50,
          }),
        order: z.enum(['newest', 'oldest']).optional().openapi({ example: 'newest' }),
      }),
      body: noBody,
      answers: {
        200: jsonContent(jobListSchema, 'The jobs, and how many there are in each state.', {
          jobs: [jobSummaryExample],
          counts: countsExample,
          lastEventId: 3,
        }),
      },
      errors: [503],
      handle({ query }, { who }) {
        // Asked for first: what changes meanwhile is told again rather than lost.
        const lastEventId = daemon.eventsAfter(Number.MAX_SAFE_INTEGER, 1).last;
        const jobs = daemon.jobs({
          states: query.state,
          after: query.after,
          newestFirst: query.order !== 'oldest',
          limit: query.limit ?? serverLimits.jobsListed,
        });
        const seen = jobs.map((job) => asSeenBy(who.identity, job));
        return jsonAnswer({ jobs: seen, counts: daemon.counts(), lastEventId });
      },
    }),
    operation({
      method: 'post',
      path: '/jobs',
      id: 'submitJob',
      tag,
      summary: 'Submit a job',
      needs: 'work',
      audit: 'submit',
      description:
        'It starts when the memory it needs can be reserved. When this answers, the job is kept on the disk. With a workload that may take minutes: it is estimated first. A client that leaves before it has its answer knows no id; its job is cancelled, unless it sent a submission, with which it can ask again.',
      params: nothing,
      query: nothing,
      body: { schema: jobRequestSchema, example: jobRequestExample },
      answers: { 201: jsonContent(jobSchema, 'The job.', jobExample) },
      errors: [422, 501, 503, 507],
      async handle({ body }, { outgoing, who, about }) {
        const by = await submitterOf(who.identity);
        const workload = body.workload && readable(who.identity, body.workload);
        const job = await daemon.submit({ ...body, workload }, by);
        const isRefused = job.state === 'refused';
        about({ job: job.id, ...(isRefused && { outcome: 'refused', code: 'job-refused' }) });
        const isOrphan = outgoing.destroyed && body.submission === undefined;
        if (isOrphan && !hasEnded(job.state)) await daemon.cancel(job.id);
        return jsonAnswer(job, 201, { location: `/jobs/${encodeURIComponent(job.id)}` });
      },
    }),
    operation({
      method: 'get',
      path: '/jobs/{id}',
      id: 'getJob',
      tag,
      summary: 'One job',
      params: jobIdParams,
      query: nothing,
      body: noBody,
      answers: { 200: jsonContent(jobSchema, 'The job.', jobExample) },
      errors: [404],
      handle: ({ params }, { who }) => jsonAnswer(asSeenBy(who.identity, daemon.job(params.id))),
    }),
    operation({
      method: 'get',
      path: '/jobs/{id}/request',
      needs: 'work',
      id: 'getJobRequest',
      tag,
      summary: 'What was asked for, to submit it again',
      description: 'It holds the environment that was sent with the job.',
      params: jobIdParams,
      query: nothing,
      body: noBody,
      answers: {
        200: jsonContent(submittedRequestSchema, 'The request.', {
          request: jobRequestExample,
        }),
      },
      errors: [404],
      handle({ params: { id } }, { who }) {
        // Its environment may hold secrets.
        requireOwn(who.identity, daemon.job(id), 'read its request');
        return jsonAnswer({ request: daemon.request(id) });
      },
    }),
    operation({
      method: 'delete',
      path: '/jobs/{id}',
      id: 'cancelJob',
      tag,
      summary: 'Cancel a job',
      needs: 'work',
      audit: 'cancel',
      description: 'One that runs is asked to end, and has ended a little later.',
      params: jobIdParams,
      query: nothing,
      body: noBody,
      answers: { 200: jsonContent(jobSchema, 'The job.', jobExample) },
      errors: [404, 409, 507],
      async handle({ params: { id } }, { who }) {
        requireOwn(who.identity, daemon.job(id), 'cancel it');
        return jsonAnswer(await daemon.cancel(id));
      },
    }),
    operation({
      method: 'post',
      path: '/jobs/{id}/limit',
      id: 'limitJob',
      tag,
      summary: 'Move the limit of a job that runs',
      needs: 'work',
      audit: 'limit',
      description:
        'More is reserved at once, or refused with 409. Less is reserved once the program keeps to it: "limit" in the job tells.',
      params: jobIdParams,
      query: nothing,
      body: { schema: jobLimitSchema, example: { memoryBytes: 21_474_836_480 } },
      answers: { 200: jsonContent(jobSchema, 'The job.', jobExample) },
      errors: [404, 409, 422, 507],
      async handle({ params: { id }, body }, { who }) {
        requireOwn(who.identity, daemon.job(id), 'change its limit');
        return jsonAnswer(await daemon.limit(id, body.memoryBytes));
      },
    }),
    operation({
      method: 'get',
      path: '/jobs/{id}/history',
      id: 'getJobHistory',
      tag,
      summary: 'What a job held over time',
      params: jobIdParams,
      query: nothing,
      body: noBody,
      answers: {
        200: jsonContent(jobHistorySchema, 'The series.', {
          epochMs: [1_767_225_600_000],
          usedBytes: [5_368_709_120],
        }),
      },
      errors: [404],
      handle: ({ params }) => jsonAnswer(daemon.jobHistory(params.id)),
    }),
  ];
}
