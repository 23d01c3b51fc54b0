import { Failure } from '../../failure.js';
import type { Answer } from '../routes/operation.js';
import { errorAnswer, internalError } from './error-body.js';

/** What a request came to, for the log; `error` where it was a fault of ours. */
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
