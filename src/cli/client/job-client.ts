import type { JobRequest, JobSummary, JobView, LogAnswer } from '../../jobs/daemon/types.js';
import { type JobState, jobStates } from '../../jobs/types.js';
import { notOurs, type ServerClient } from './server-client.js';

export type JobCounts = Readonly<Record<string, number>>;

export interface JobPage {
  readonly jobs: readonly JobSummary[];
  readonly counts: JobCounts;
}

/** A page as large as the server gives one. */
const pageSize = 1000;

export async function submitJob(client: ServerClient, request: JobRequest): Promise<JobView> {
  return checkedJob(client, await client.ask('POST', '/jobs', request));
}

export async function readJob(client: ServerClient, id: string): Promise<JobView> {
  return checkedJob(client, await client.ask('GET', jobPath(id)));
}

export async function cancelJob(client: ServerClient, id: string): Promise<JobView> {
  return checkedJob(client, await client.ask('DELETE', jobPath(id)));
}

export async function limitJob(
  client: ServerClient,
  id: string,
  memoryBytes: number,
): Promise<JobView> {
  return checkedJob(client, await client.ask('POST', `${jobPath(id)}/limit`, { memoryBytes }));
}

export interface JobFilter {
  readonly states?: readonly JobState[] | undefined;
  readonly order: 'newest' | 'oldest';
  readonly most: number;
}

export async function listJobs(
  client: ServerClient,
  { states, order, most }: JobFilter,
): Promise<JobPage> {
  const jobs: JobSummary[] = [];
  for (;;) {
    const limit = Math.min(pageSize, most - jobs.length);
    const query = new URLSearchParams({ order, limit: String(Math.max(1, limit)) });
    if (states !== undefined) query.set('state', states.join(','));
    const last = jobs.at(-1);
    if (last !== undefined) query.set('after', last.id);
    const page: unknown = await client.ask('GET', `/jobs?${query.toString()}`);
    if (!isPage(page)) throw notOurs(client.address);
    jobs.push(...page.jobs);
    // The same job again would mean that the server does not turn pages.
    const moved = page.jobs.at(-1)?.id !== last?.id;
    if (page.jobs.length === 0 || !moved || jobs.length >= most) {
      return { jobs: jobs.slice(0, most), counts: page.counts };
    }
  }
}

/** What a job printed, from an offset on; the server gives a part of it. */
export async function readLog(client: ServerClient, id: string, from: number): Promise<LogAnswer> {
  const { bytes, headers } = await client.read(`${jobPath(id)}/log?from=${from}`);
  const said = (name: string) => Number(headers.get(name) ?? Number.NaN);
  const [size, next] = [said('x-log-size'), said('x-log-next')];
  const isOurs = [size, next].every((at) => Number.isSafeInteger(at) && at >= 0);
  // One that stands still while bytes come would be asked for them for ever.
  if (!isOurs || next < from || (next === from && bytes.byteLength > 0)) {
    throw notOurs(client.address);
  }
  return { bytes, size, next };
}

function jobPath(id: string): string {
  return `/jobs/${encodeURIComponent(id)}`;
}

function checkedJob(client: ServerClient, document: unknown): JobView {
  if (isJobView(document)) return document;
  throw notOurs(client.address);
}

/** So far that another program on the same port is found out. */
function isJobView(value: unknown): value is JobView {
  return isSummary(value) && 'log' in value && typeof Object(value.log).bytes === 'number';
}

function isSummary(value: unknown): value is JobSummary {
  const { id, state, command, attempts, need, name, reason } = Object(value);
  const known: readonly string[] = jobStates;
  return (
    [id, name, reason].every((one) => typeof one === 'string') &&
    known.includes(state) &&
    Array.isArray(command) &&
    Array.isArray(attempts) &&
    typeof Object(need).bytes === 'number'
  );
}

function isPage(value: unknown): value is JobPage {
  const { jobs, counts } = Object(value);
  return Array.isArray(jobs) && jobs.every(isSummary) && typeof counts === 'object';
}
