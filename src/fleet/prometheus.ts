import { Failure } from '../failure.js';
import {
  type Line,
  prometheusLimits as limits,
  notPrometheus,
  type Point,
  readError,
  readLines,
  readPoints,
  tooMuch,
} from './read-answer.js';

/** The address of Prometheus, and its requirements for clients. */
export interface PrometheusAddress {
  /** Without a slash at its end. */
  readonly url: string;
  /** The value of the header `Authorization`. */
  readonly authorization?: string | undefined;
}

/** Queries a Prometheus over HTTP. Every error is a `Failure`. */
export interface Prometheus {
  readonly url: string;
  points(expression: string, signal: AbortSignal): Promise<readonly Point[]>;
  lines(expression: string, range: TimeRange, signal: AbortSignal): Promise<readonly Line[]>;
}

export interface TimeRange {
  /** Seconds since 1970. */
  readonly from: number;
  readonly to: number;
  readonly stepSeconds: number;
}

export function openPrometheus(
  address: PrometheusAddress,
  timeoutSeconds: number = limits.seconds,
): Prometheus {
  const ask = async (path: string, form: Record<string, string>, signal: AbortSignal) => {
    const timeout = AbortSignal.timeout(timeoutSeconds * 1000);
    try {
      // By POST, as expressions may be long; Prometheus takes both.
      const response = await fetch(`${address.url}/api/v1/${path}`, {
        method: 'POST',
        headers:
          address.authorization === undefined ? {} : { authorization: address.authorization },
        body: new URLSearchParams({ ...form, timeout: `${timeoutSeconds}s` }),
        // The secret is for this address alone.
        redirect: 'manual',
        signal: AbortSignal.any([signal, timeout]),
      });
      const text = await textOf(response);
      if (response.ok) return text;
      throw refused(address.url, response.status, readError(text));
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (signal.aborted) throw interrupted(error);
      throw timeout.aborted ? slow(address.url, timeoutSeconds) : unreachable(address.url, error);
    }
  };
  return {
    url: address.url,
    points: async (query, signal) => readPoints(await ask('query', { query }, signal)),
    lines: async (query, { from, to, stepSeconds }, signal) => {
      const range = { start: String(from), end: String(to), step: String(stepSeconds) };
      return readLines(await ask('query_range', { query, ...range }, signal));
    },
  };
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > limits.answerBytes) throw tooMuch(`more than ${limits.answerBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function refused(url: string, status: number, said: string | undefined): Failure {
  if (status === 401 || status === 403) {
    return new Failure({
      kind: 'input',
      code: 'prometheus-refused',
      fact: `Prometheus at ${url} refuses the request (HTTP ${status}).`,
      next: 'Set PLIMSOLL_PROMETHEUS_AUTH, or --prometheus-auth-file, to "bearer TOKEN" or "basic USER:PASSWORD".',
    });
  }
  if (said === undefined) return notPrometheus(`error (HTTP ${status})`);
  return new Failure({
    kind: 'missing',
    code: 'prometheus-failed',
    fact: `Prometheus at ${url} could not answer a query: ${said}.`,
    next: 'Use a shorter --window, or raise --query.max-samples and --query.timeout of Prometheus.',
  });
}

function slow(url: string, seconds: number): Failure {
  return new Failure({
    kind: 'missing',
    code: 'prometheus-slow',
    fact: `Prometheus at ${url} did not answer a query within ${seconds} s.`,
    next: 'Ask again, or use a longer --timeout or a shorter --window.',
  });
}

function unreachable(url: string, cause: unknown): Failure {
  const { code, errors, message } = Object(Object(cause).cause);
  const why = code ?? (Array.isArray(errors) ? Object(errors[0]).code : undefined) ?? message;
  return new Failure({
    kind: 'missing',
    code: 'prometheus-unreachable',
    fact: `No Prometheus answers at ${url}${typeof why === 'string' ? ` (${why})` : ''}.`,
    next: 'Check the address and that Prometheus runs there.',
    cause,
  });
}

function interrupted(cause: unknown): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'interrupted',
    fact: 'It was interrupted before Prometheus answered.',
    next: 'Run the command again.',
    cause,
  });
}

/** Longer than any token that an identity provider makes. */
const maxSecretCharacters = 16_384;

/**
 * An address of Prometheus as people write it; a path is kept, as a proxy may have one.
 *
 * @example
 * prometheusUrl('http://prometheus:9090/'); // 'http://prometheus:9090'
 */
export function prometheusUrl(text: string, source: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && (url.username !== '' || url.password !== '')) {
    throw new Failure({
      kind: 'input',
      code: 'bad-option',
      fact: `${source} holds a user or a password. Every user of this machine can see them there.`,
      next: 'Put "basic USER:PASSWORD" into PLIMSOLL_PROMETHEUS_AUTH, or into the file of --prometheus-auth-file.',
    });
  }
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol)) {
    return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
  }
  throw new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `${source} cannot be "${text.slice(0, 200)}".`,
    next: 'It takes an address, such as http://prometheus:9090.',
  });
}

/**
 * The value of the header `Authorization`.
 *
 * @example
 * authorizationOf('bearer abc', 'PLIMSOLL_PROMETHEUS_AUTH'); // 'Bearer abc'
 */
export function authorizationOf(text: string, source: string): string {
  const [, kind = '', secret = ''] = /^\s*(bearer|basic)\s+(\S.*?)\s*$/is.exec(text) ?? [];
  const isPrintable = /^[\x21-\x7e]+$/.test(secret) && secret.length <= maxSecretCharacters;
  if (kind.toLowerCase() === 'bearer' && isPrintable) return `Bearer ${secret}`;
  if (kind.toLowerCase() === 'basic' && /^[^:\n]+:[^\n]*$/.test(secret)) {
    return `Basic ${Buffer.from(secret.slice(0, maxSecretCharacters)).toString('base64')}`;
  }
  throw new Failure({
    kind: 'input',
    code: 'bad-prometheus-auth',
    fact: `${source} holds neither a token nor a user with a password.`,
    next: 'Write "bearer TOKEN" or "basic USER:PASSWORD" there.',
  });
}
