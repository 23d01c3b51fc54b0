import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';

/** Ray's dashboard, asked over HTTP. */
export interface RayHttp {
  readonly address: string;
  /** Returns the answer; undefined if Ray does not know the path. */
  get(path: string): Promise<unknown>;
  post(path: string, body?: object): Promise<unknown>;
}

/** Each job has up to 25 kB in the list of all jobs: some ten thousand of them. */
const maxAnswerBytes = 256 * MiB;
/** A head that is busy answers within seconds; one that takes so long hangs. */
const usualTimeoutMs = 60_000;

export interface RayHttpOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
}

/** Asks the dashboard at an address that was checked before (`rayAddress`). */
export function rayHttp(address: string, options: RayHttpOptions): RayHttp {
  const { environment, timeoutMs = usualTimeoutMs, maxBytes = maxAnswerBytes } = options;
  const token = environment['RAY_AUTH_TOKEN'];
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };

  async function ask(method: string, path: string, body: string): Promise<unknown> {
    const url = new URL(`${address}${path}`);
    const { status, text } = await exchange(url, {
      method,
      body,
      headers,
      timeoutMs,
      maxBytes,
    }).catch((error: unknown) => {
      throw error instanceof Failure ? error : unreachable(address, error, timeoutMs);
    });
    if (status === 404) return undefined;
    if (status === 401 || status === 403) throw denied(address, token !== undefined);
    if (status >= 300 && status < 400) throw notRay(address, 'it sends to a login');
    if (status >= 400) throw refused(address, status, text);
    try {
      return JSON.parse(text);
    } catch {
      throw notRay(address, 'its answer is not JSON');
    }
  }

  return {
    address,
    get: (path) => ask('GET', path, ''),
    post: (path, body = {}) => ask('POST', path, JSON.stringify(body)),
  };
}

interface Exchange {
  readonly method: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** Not by `fetch`: Ray takes it for a browser, and refuses browsers that submit. */
function exchange(
  url: URL,
  { method, body, headers, timeoutMs, maxBytes }: Exchange,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method,
      signal,
      headers: { ...headers, 'content-type': 'application/json' },
    });
    const fail = (error: unknown) => reject(signal.aborted ? signal.reason : error);
    request.on('error', fail);
    request.on('response', (answer) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      answer.on('data', (piece: Buffer) => {
        bytes += piece.length;
        pieces.push(piece);
        if (bytes > maxBytes) {
          reject(tooLong(url.origin, maxBytes));
          request.destroy();
        }
      });
      answer.on('error', fail);
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(pieces).toString('utf8') }),
      );
    });
    request.end(body);
  });
}

function unreachable(address: string, error: unknown, timeoutMs: number): Failure {
  const isLate = error instanceof Error && error.name === 'TimeoutError';
  const why = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  return new Failure({
    kind: 'missing',
    code: isLate ? 'ray-timeout' : 'no-ray-head',
    fact: isLate
      ? `Ray's dashboard at ${address} did not answer within ${timeoutMs / 1000} s.`
      : `No Ray head answers at ${address} (${why.slice(0, 200)}).`,
    next: isLate
      ? 'Look at the head with "ray status", then try again.'
      : 'Start Ray, open a tunnel to its dashboard, or name it: --address http://head:8265',
    cause: error,
  });
}

function denied(address: string, hasToken: boolean): Failure {
  return new Failure({
    kind: 'missing',
    code: 'ray-denied',
    fact: `Ray's dashboard at ${address} refuses ${hasToken ? 'the token of RAY_AUTH_TOKEN' : 'requests without a token'}.`,
    next: 'Set RAY_AUTH_TOKEN to the token of the cluster ("ray get-auth-token" on its head).',
  });
}

export function notRay(address: string, why: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'not-ray',
    fact: `What answers at ${address} is not a Ray dashboard: ${why}.`,
    next: 'Name the dashboard of the head, usually port 8265: --address http://head:8265',
  });
}

function refused(address: string, status: number, text: string): Failure {
  const lines = text.split('\n').map((line) => line.trim());
  const said = lines.findLast((line) => line !== '') ?? '';
  const fact = `Ray at ${address} answered ${status}: ${said.slice(0, 400)}`;
  return new Failure({
    kind: 'missing',
    code: 'ray-refused',
    fact: fact.endsWith('.') ? fact : `${fact}.`,
    // A part of the head that was killed is back some seconds later.
    next:
      status >= 500
        ? 'Try again in a minute; if it stays so, look at the head with "ray status".'
        : 'Change what it names, or look at the head with "ray status".',
  });
}

function tooLong(address: string, maxBytes: number): Failure {
  return new Failure({
    kind: 'missing',
    code: 'ray-answer-too-large',
    fact: `An answer of Ray at ${address} is larger than ${maxBytes / MiB} MiB.`,
    next: 'Delete old jobs with "ray job delete", or look at it in the dashboard.',
  });
}

/** The usual address of Ray's dashboard. */
const usualAddress = 'http://127.0.0.1:8265';

/**
 * The dashboard that is meant: by the option, Ray's own variables, the configuration, else this machine.
 *
 * @example
 * rayAddress('http://head:8265/', {}, undefined); // 'http://head:8265'
 */
export function rayAddress(
  option: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  configured: string | undefined,
): string {
  if (option !== undefined) return checked(option, '--address');
  const server = environment['RAY_API_SERVER_ADDRESS'];
  if (server) return checked(server, 'RAY_API_SERVER_ADDRESS');
  // Ray uses the same variable for the address of its nodes, which is no URL.
  const address = environment['RAY_ADDRESS'];
  if (address?.startsWith('http')) return checked(address, 'RAY_ADDRESS');
  return configured === undefined ? usualAddress : checked(configured, 'ray.address');
}

function checked(text: string, from: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  if (url === undefined || !isWeb || url.username !== '' || url.search !== '' || url.hash !== '') {
    throw new Failure({
      kind: 'input',
      code: 'bad-option',
      fact: `${from} cannot be "${text.slice(0, 200)}".`,
      next: 'Write the address of the dashboard, such as http://head:8265',
    });
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}
