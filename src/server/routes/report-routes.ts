import { z } from '@hono/zod-openapi';
import { Failure } from '../../failure.js';
import type { Daemon } from '../../jobs/daemon/types.js';
import { renderRunHtml } from '../../report/run-html.js';
import { requireOwn } from '../access/permissions.js';
import { pageOfJobHeaders } from '../http/security-headers.js';
import { noBody, nothing } from './answers.js';
import { jobReport } from './job-report.js';
import { jobIdParams } from './job-routes.js';
import { type Answer, type Operation, operation } from './operation.js';

/** Makes the page of a snapshot file; a `Failure` where it cannot be read. */
export type SnapshotPage = (file: string, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;

const tag = 'jobs';
const attemptParams = jobIdParams.extend({
  attempt: z
    .string()
    .regex(/^[1-9]\d{0,5}$/)
    .openapi({ description: 'The number of an attempt.', example: '1' }),
});

/** What a job leaves for people to read; only for those who may read its log. */
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
