import { refusalOf } from './refusal.js';
import type {
  Assumptions,
  DeviceHistory,
  DeviceView,
  Fleet,
  JobHistory,
  JobRequest,
  JobState,
  JobSummary,
  JobView,
  KnownNames,
} from './types.js';

/** Relative to the page, so that it also works below a path of a proxy. */
function address(path: string): string {
  return new URL(path, document.baseURI).href;
}

async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(address(path), { credentials: 'same-origin', ...init });
  if (answer.ok) return answer;
  const body: unknown = await answer.json().catch(() => undefined);
  throw refusalOf(answer.status, body);
}

/** The server is of the same package as this page: its answers have the types of the contract. */
async function ask<T>(path: string, init?: RequestInit): Promise<T> {
  const answer = await call(path, init);
  const body: T = await answer.json();
  return body;
}

function sending(method: 'POST', body: unknown): RequestInit {
  return { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

interface JobList {
  readonly jobs: readonly JobSummary[];
  readonly counts: Readonly<Record<JobState, number>>;
}

export interface JobListQuery {
  readonly states?: readonly JobState[];
  readonly after?: string | undefined;
  readonly limit: number;
  readonly order: 'newest' | 'oldest';
}

export function fetchDevices(): Promise<{ readonly devices: readonly DeviceView[] }> {
  return ask('devices');
}

export function fetchDeviceHistory(
  id: string,
  seconds: number,
  points: number,
): Promise<DeviceHistory> {
  return ask(`devices/${encodeURIComponent(id)}/history?seconds=${seconds}&points=${points}`);
}

/** All nodes that the server's Prometheus scrapes. */
export function fetchFleet(): Promise<Fleet> {
  return ask('fleet');
}

function fetchJobs({ states, after, limit, order }: JobListQuery): Promise<JobList> {
  const query = new URLSearchParams({ limit: String(limit), order });
  if (states !== undefined) query.set('state', states.join(','));
  if (after !== undefined) query.set('after', after);
  return ask(`jobs?${query}`);
}

export function fetchJob(id: string): Promise<JobView> {
  return ask(`jobs/${encodeURIComponent(id)}`);
}

/** Fetches the request of a job, to submit it again. */
export async function fetchJobRequest(id: string): Promise<JobRequest> {
  const path = `jobs/${encodeURIComponent(id)}/request`;
  return (await ask<{ readonly request: JobRequest }>(path)).request;
}

export function fetchJobHistory(id: string): Promise<JobHistory> {
  return ask(`jobs/${encodeURIComponent(id)}/history`);
}

/** Part of what a job printed, how long all of it is, and from where to read on. */
export async function fetchLog(
  id: string,
  from: number,
): Promise<{ readonly bytes: Uint8Array; readonly size: number; readonly next: number }> {
  const answer = await call(`jobs/${encodeURIComponent(id)}/log?from=${from}`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const said = (name: string) => Number(answer.headers.get(name) ?? from + bytes.length);
  return { bytes, size: said('x-log-size'), next: said('x-log-next') };
}

export function logAddress(id: string): string {
  return address(`jobs/${encodeURIComponent(id)}/log`);
}

/** The report of a job that has ended, as a page. */
export function reportAddress(id: string): string {
  return address(`jobs/${encodeURIComponent(id)}/report`);
}

/** The memory snapshot of an attempt, as a page. */
export function snapshotAddress(id: string, attempt: number): string {
  return address(`jobs/${encodeURIComponent(id)}/snapshots/${attempt}`);
}

/** Under a name of its own: a page that is closed meanwhile leaves the job to run. */
export function submitJob(request: JobRequest): Promise<JobView> {
  return ask('jobs', sending('POST', { submission: newSubmission(), ...request }));
}

function newSubmission(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

export function cancelJob(id: string): Promise<JobView> {
  return ask(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
}

/** Errors and notes of the answer name the fields of the forms. */
export function postQuestion<T>(
  path: 'estimate' | 'plan',
  body: object,
  signal: AbortSignal,
): Promise<T> {
  return ask(`${path}?words=form`, { ...sending('POST', body), signal });
}

/** The values that the server takes for what a question leaves out. */
export async function fetchAssumptions(
  path: 'estimate' | 'plan',
  body: object,
  signal: AbortSignal,
): Promise<Assumptions> {
  const request = { ...sending('POST', body), signal };
  type Found = { readonly assumptions: Assumptions };
  return (await ask<Found>(`${path}/assumptions`, request)).assumptions;
}

/** The models and cards that the server knows. */
export function fetchNames(): Promise<KnownNames> {
  return ask('names');
}

/** Fetches the person that the server takes this browser for. */
export function fetchWho(): Promise<{
  readonly name: string;
  readonly role: 'admin' | 'user' | 'viewer';
}> {
  return ask('session');
}

/** Answers with a cookie that all later calls carry. */
export async function signIn(
  shown: { readonly token: string } | { readonly code: string },
): Promise<void> {
  await call('session', sending('POST', shown));
}

export function eventsAddress(after: number | undefined): string {
  return address(after === undefined ? 'events' : `events?after=${after}`);
}

/** The page lists no more: a longer list is searched with the command line. */
export const jobsListed = 10_000;
/** A page of the list: small enough that the first rows are there at once. */
const pageJobs = 1000;
const firstEnded = 100;

const active: readonly JobState[] = ['running', 'waiting'];
const ended: readonly JobState[] = ['succeeded', 'failed', 'cancelled', 'refused', 'expired'];

/** Fetches the first jobs to show: those that run and wait, and a few that ended. */
export async function firstJobs(): Promise<JobList> {
  const [now, before] = await Promise.all([
    fetchJobs({ states: active, limit: pageJobs, order: 'oldest' }),
    fetchJobs({ states: ended, limit: firstEnded, order: 'newest' }),
  ]);
  return { jobs: [...now.jobs, ...before.jobs], counts: now.counts };
}

/** The rest of the list, page by page; `add` answers false to stop. */
export async function restOfJobs(
  first: readonly JobSummary[],
  add: (jobs: readonly JobSummary[]) => boolean,
): Promise<void> {
  let listed = first.length;
  const lists = [
    { states: active, order: 'oldest', has: first.filter(({ endedAt }) => endedAt === null) },
    { states: ended, order: 'newest', has: first.filter(({ endedAt }) => endedAt !== null) },
  ] as const;
  for (const { states, order, has } of lists) {
    let after = has.at(-1)?.id;
    const whole = order === 'oldest' ? pageJobs : firstEnded;
    let more = has.length >= whole;
    while (more && listed < jobsListed) {
      const limit = Math.min(pageJobs, jobsListed - listed);
      const { jobs } = await fetchJobs({ states, after, limit, order });
      listed += jobs.length;
      after = jobs.at(-1)?.id;
      more = jobs.length > 0;
      if (!add(jobs)) return;
    }
  }
}
