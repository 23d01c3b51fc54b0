import { z } from '@hono/zod-openapi';
import { Failure } from '../../failure.js';
import type { Daemon, JobView } from '../../jobs/daemon/types.js';
import type { JobState } from '../../jobs/types.js';
import { renderRunHtml } from '../../report/run-html.js';
import type { Outcome, RunReport } from '../../run/types.js';
import { requireOwn } from '../access/permissions.js';
import { pageOfJobHeaders } from '../http/exchanges.js';
import { jobIdParams } from './job-routes.js';
import { type Answer, noBody, nothing, type Operation, operation } from './operation.js';

/** Makes the page of a snapshot file; a `Failure` where it cannot be read. */
export type SnapshotPage = (file: string, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;

const tag = 'jobs';
const attemptParams = jobIdParams.extend({
  attempt: z
    .string()
    .regex(/^[1-9]\d{0,5}$/)
    .openapi({ description: 'The number of an attempt.', example: '1' }),
});

/** Operations for a job's reports; only for people who may read its log. */
export function reportOperations(
  daemon: Daemon,
  version: string,
  snapshotPage: SnapshotPage,
): readonly Operation[] {
  return [
    operation({
      method: 'get',
      path: '/jobs/{id}/report',
      id: 'getJobReport',
      tag,
      summary: 'The report of a job that has ended',
      description: 'One HTML page that stands alone, as "plimsoll run --report" writes it.',
      needs: 'work',
      params: jobIdParams,
      query: nothing,
      body: noBody,
      answers: { 200: pageContent('The report.') },
      errors: [404],
      handle({ params: { id } }, { who }) {
        const job = daemon.job(id);
        requireOwn(who.identity, job, 'read its report');
        const report = jobReport(job, version);
        if (report === undefined) throw noReport(id);
        return pageAnswer(renderRunHtml(report));
      },
    }),
    operation({
      method: 'get',
      path: '/jobs/{id}/snapshots/{attempt}',
      id: 'getJobSnapshot',
      tag,
      summary: 'The memory snapshot of an attempt that ran out of memory',
      description:
        'One HTML page, as "plimsoll snapshot --html" writes it. A large snapshot takes some seconds.',
      needs: 'work',
      params: attemptParams,
      query: nothing,
      body: noBody,
      answers: { 200: pageContent('The analysis of the snapshot.') },
      errors: [404, 422, 503],
      async handle({ params: { id, attempt } }, { who, signal }) {
        const job = daemon.job(id);
        requireOwn(who.identity, job, 'read its snapshot');
        const found = job.attempts.find(({ number }) => number === Number(attempt));
        if (found === undefined || found.snapshot === null) throw noSnapshot(id, attempt);
        return pageAnswer(await snapshotPage(found.snapshot.file, signal));
      },
    }),
  ];
}

/** Without means to make pages of snapshots. */
export const noSnapshotPages: SnapshotPage = () =>
  Promise.reject(
    new Failure({
      kind: 'missing',
      code: 'no-snapshot-pages',
      fact: 'This server makes no pages of snapshots.',
      next: 'Run "plimsoll snapshot FILE --html page.html" on its machine.',
    }),
  );

function pageContent(description: string) {
  const content = { schema: z.string(), example: '<!doctype html>' };
  return { description, content: { 'text/html': content } };
}

function pageAnswer(body: string | Uint8Array<ArrayBuffer>): Answer {
  const type = { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' };
  return { status: 200, body, headers: { ...type, ...pageOfJobHeaders } };
}

function noReport(id: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-report',
    fact: `Job ${id} has no report: it has not ended, or never ran.`,
    next: `GET /jobs/${id} says where it stands.`,
  });
}

function noSnapshot(id: string, attempt: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-snapshot',
    fact: `Attempt ${attempt} of job ${id} left no memory snapshot.`,
    next: 'Programs with the SDK write one when memory runs out.',
  });
}

const outcomes: Readonly<Partial<Record<JobState, Outcome>>> = {
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'interrupted',
};

/**
 * The report of a job that ran, as `plimsoll run` writes it; undefined while it runs, and where it
 * never did.
 *
 * @example
 * const report = jobReport(daemon.job('7'), version);
 * if (report !== undefined) await writeFile('job-7.html', renderRunHtml(report));
 */
export function jobReport(job: JobView, version: string): RunReport | undefined {
  const outcome = outcomes[job.state];
  const { startedAt, endedAt, attempts } = job;
  if (outcome === undefined || startedAt === null || endedAt === null) return undefined;
  return {
    schema: 1,
    tool: { name: 'plimsoll', version },
    id: `job ${job.id}, ${job.name}`,
    command: job.command,
    outcome,
    exitCode: attempts.at(-1)?.exitCode ?? 'unknown',
    startedAt,
    endedAt,
    attempts,
    notes: [job.reason, job.need.why].filter((note) => note !== ''),
  };
}
