import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { Failure, type FailureKind } from '../../failure.js';
import type { JobRequest, JobSummary, JobView, LogAnswer } from '../../jobs/daemon/types.js';
import { type JobState, jobStates } from '../../jobs/types.js';
import { isProof } from '../../server/access/token.js';
import { hashOfToken, tokenId } from '../../server/access/users/user.js';
import type { CliIo } from '../io.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { findServer, placeOf, type ServerAddress, type ServerArguments } from './find-server.js';

/** What is asked of a server, over HTTP. Every error is a `Failure`. */
export interface ServerClient {
  readonly address: ServerAddress;
  /** The JSON that it answers. */
  ask(method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<unknown>;
  /** Plain bytes, and the headers of the answer. */
  read(path: string): Promise<{ bytes: Uint8Array; headers: Headers }>;
}

/** Much more than 10,000 jobs take; what answers more is no server of ours. */
const maxBytes = 256 * 1024 * 1024;

/** No server listens there; a caller that waits for one asks again. */
export const unreachableCode = 'server-unreachable';

export function openServerClient(
  address: ServerAddress,
  signal: AbortSignal,
  fetcher: Fetcher = address.socket === undefined ? fetch : socketFetch(address.socket),
): ServerClient {
  const send = async (method: string, path: string, body?: unknown): Promise<Answer> => {
    if (address.isForeign) throw unreachable(address);
    await prove();
    return exchange(method, path, body);
  };
  let isProven = false;
  /** Before the token or anything else that is secret is sent. */
  const prove = async (): Promise<void> => {
    if (isProven || address.token === undefined) return;
    const nonce = randomBytes(24).toString('base64url');
    // Of the token of a user the server knows the hash, and finds it by the part that may be told.
    const id = tokenId(address.token);
    const query = id === undefined ? `nonce=${nonce}` : `nonce=${nonce}&id=${id}`;
    const key = id === undefined ? address.token : hashOfToken(address.token);
    const { bytes } = await exchange('GET', `/proof?${query}`, undefined, false);
    const { proof } = Object(parsed(bytes));
    if (typeof proof !== 'string' || !isProof(proof, key, nonce)) throw unproven(address);
    isProven = true;
  };
  const exchange = async (
    method: string,
    path: string,
    body?: unknown,
    withToken = address.token !== undefined,
  ): Promise<Answer> => {
    const headers = {
      ...(withToken && { authorization: `Bearer ${address.token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    };
    try {
      const response = await fetcher(`${address.url}${path}`, {
        method,
        headers,
        // A server of ours never sends elsewhere, and the token must not go there.
        redirect: 'manual',
        signal,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { response, bytes: await bytesOf(response, address) };
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (signal.aborted) throw interrupted(error);
      // What answers there next may be another program.
      isProven = false;
      throw unreachable(address, error);
    }
  };
  return {
    address,
    async ask(method, path, body) {
      const answer = await send(method, path, body);
      const document = parsed(answer.bytes);
      if (answer.response.ok && document !== undefined) return document;
      throw refused(address, answer.response.status, document);
    },
    async read(path) {
      const { response, bytes } = await send('GET', path);
      if (!response.ok) throw refused(address, response.status, parsed(bytes));
      return { bytes, headers: response.headers };
    },
  };
}

interface Answer {
  readonly response: Response;
  readonly bytes: Uint8Array;
}

async function bytesOf(response: Response, address: ServerAddress): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw notOurs(address);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return undefined;
  }
}

/** The server's own words; its status says what kind of trouble it is. */
function refused(address: ServerAddress, status: number, document: unknown): Failure {
  const { code, fact, next } = Object(Object(document).error);
  if (
    typeof code !== 'string' ||
    !/^[a-z][a-z-]{1,60}$/.test(code) ||
    typeof fact !== 'string' ||
    typeof next !== 'string'
  ) {
    return notOurs(address);
  }
  const kind: FailureKind = status >= 500 || status === 429 ? 'missing' : 'input';
  if (status === 401) return tokenRefused(address, code, fact);
  return new Failure({ kind, code, fact, next });
}

function tokenRefused(address: ServerAddress, code: string, fact: string): Failure {
  return new Failure({
    kind: 'input',
    code,
    fact: `${fact} (${placeOf(address)})`,
    next: 'Set PLIMSOLL_TOKEN to the token that it was started with.',
  });
}

function unproven(address: ServerAddress): Failure {
  return new Failure({
    kind: 'input',
    code: 'server-unproven',
    fact: `The program at ${placeOf(address)} could not prove that it knows your token. Nothing was sent.`,
    next: 'Correct or unset PLIMSOLL_TOKEN. If it is right, another program has taken the port: start "plimsoll serve", or name the server with --server.',
  });
}

function unreachable(address: ServerAddress, cause?: unknown): Failure {
  const why = reasonOf(cause);
  return new Failure({
    kind: 'missing',
    code: unreachableCode,
    fact: `No server answers at ${placeOf(address)}${why === undefined ? '' : ` (${why})`}.`,
    next: 'Start one with "plimsoll serve", or name another with --server.',
    cause,
  });
}

/** `fetch failed` says nothing; what lies under it does. */
function reasonOf(error: unknown): string | undefined {
  const { code, errors, message } = Object(Object(error).cause);
  const inner = Array.isArray(errors) ? Object(errors[0]).code : undefined;
  const found = code ?? inner ?? message;
  return typeof found === 'string' ? found : undefined;
}

/** A connection that came about, and broke. */
const broken: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
]);

/** No answer came; the server may have got the request all the same. */
export function mayHaveArrived(error: Failure): boolean {
  return broken.has(reasonOf(error.cause) ?? '');
}

export function notOurs(address: ServerAddress): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-plimsoll-server',
    fact: `The program at ${placeOf(address)} is not a plimsoll server.`,
    next: 'Another program may use that port: name the server with --server.',
  });
}

function interrupted(cause: unknown): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'interrupted',
    fact: 'It was interrupted before the server answered.',
    next: 'Run "plimsoll jobs" to see the current state.',
    cause,
  });
}

/** What a client sends; `fetch` takes it, too. */
type Fetcher = (
  url: string,
  sent: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly redirect: 'manual';
    readonly signal: AbortSignal;
    readonly body?: string;
  },
) => Promise<Response>;

/** Answers without a body. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

/** Asks a server at a local socket, as `fetch` asks one at an address. */
function socketFetch(socketPath: string): Fetcher {
  return (url, { method, headers, signal, body }) =>
    new Promise((resolve, reject) => {
      // What lies under it stands where `fetch` has it.
      const fail = (cause: unknown): void => reject(new TypeError('fetch failed', { cause }));
      const { pathname, search, host } = new URL(url);
      const sent = request({
        socketPath,
        path: `${pathname}${search}`,
        method,
        headers: { host, ...headers },
        signal,
        agent: false,
      });
      sent.once('error', fail);
      sent.once('response', (answer) => {
        const status = answer.statusCode ?? 0;
        const heads = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
          values.map((value): [string, string] => [name, value]),
        );
        try {
          const content = bodiless.has(status) ? null : Readable.toWeb(answer);
          resolve(new Response(content, { status, headers: heads }));
        } catch (error) {
          answer.destroy();
          fail(error);
        }
      });
      sent.end(body);
    });
}

/** Asks a server until the answer is there, or the person left. */
export async function withServer(
  given: ServerArguments,
  io: CliIo,
  act: (client: ServerClient, stop: Stop) => Promise<number>,
): Promise<number> {
  using stop = stopOnSignals([io.stdout.closed]);
  const client = openServerClient(findServer(given, io.environment), stop.signal);
  try {
    return await act(client, stop);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return stop.interruptedBy ?? 0;
  }
}

type JobCounts = Readonly<Record<string, number>>;

export interface JobPage {
  readonly jobs: readonly JobSummary[];
  readonly counts: JobCounts;
}

/** A page as large as the server gives one. */
const pageSize = 1000;

export async function submitJob(client: ServerClient, job: JobRequest): Promise<JobView> {
  return checkedJob(client, await client.ask('POST', '/jobs', job));
}

export async function readJob(client: ServerClient, id: string): Promise<JobView> {
  return checkedJob(client, await client.ask('GET', jobPath(id)));
}

export async function limitJob(
  client: ServerClient,
  id: string,
  memoryBytes: number,
): Promise<JobView> {
  return checkedJob(client, await client.ask('POST', `${jobPath(id)}/limit`, { memoryBytes }));
}

export async function cancelJob(client: ServerClient, id: string): Promise<JobView> {
  return checkedJob(client, await client.ask('DELETE', jobPath(id)));
}

interface JobFilter {
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
