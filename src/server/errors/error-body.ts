import { Failure } from '../../failure.js';
import { documentVersion } from '../../files/document-version.js';
import type { Answer } from '../routes/operation.js';
import { type ErrorStatus, retryAfterSeconds, statusOf } from './error-status.js';

/** Every error of the server, for every request. */
export interface ErrorBody {
  readonly schema: number;
  readonly error: {
    readonly code: string;
    readonly fact: string;
    readonly next: string;
    /** The field of the request that it is about, where it is about one. */
    readonly field?: string;
  };
}

export interface ErrorAnswer {
  readonly status: ErrorStatus;
  readonly body: ErrorBody;
  readonly headers: Readonly<Record<string, string>>;
}

/** The answer to an unexpected error: the log has the details, the client gets none. */
export const internalError: ErrorAnswer = {
  status: 500,
  body: {
    schema: documentVersion,
    error: {
      code: 'internal',
      fact: 'An unexpected error occurred in the server.',
      next: 'See the log of the server, which continues to run, and please report the error.',
    },
  },
  headers: {},
};

export function errorAnswer(failure: Failure): ErrorAnswer {
  const { code, fact, next, field } = failure;
  const status = statusOf(failure);
  const retry = retryAfterSeconds(code);
  return {
    status,
    // What somebody sent may be in it, and a terminal may show it.
    body: {
      schema: documentVersion,
      error: {
        code,
        fact: readable(fact),
        next: readable(next),
        ...(field !== undefined && { field: readable(field) }),
      },
    },
    headers: {
      ...(retry !== undefined && { 'retry-after': String(retry) }),
      ...(status === 401 && { 'www-authenticate': 'Bearer realm="plimsoll"' }),
    },
  };
}

/** The result of a request, for the log; `error` if the fault is ours. */
export interface ErrorReport {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly error?: unknown;
}

/** Clients learn what they can act on; what only we can act on is for the log. */
export function answerToError(error: unknown): Answer {
  const { status, body, headers } = error instanceof Failure ? errorAnswer(error) : internalError;
  return {
    status,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
  };
}

/** A text that somebody sent, for a place where a line break or an escape would mean something. */
export function readable(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ');
}
