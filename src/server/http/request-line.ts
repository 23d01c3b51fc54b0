import type { ErrorReport } from '../errors/answer-to-error.js';
import { readable } from '../errors/readable.js';

/** An address in a log is cut here: it may be long, and anybody may write it. */
const shownCharacters = 200;

/** One line for the log, or nothing where there is nothing worth one. */
export function requestLine(
  { method, path, status, error }: ErrorReport,
  everyRequest: boolean,
): string | undefined {
  if (error === undefined && !everyRequest) return undefined;
  const line = readable(`${method} ${path.slice(0, shownCharacters)} ${status}`);
  return error === undefined ? line : `${line}: ${describeFault(error)}`;
}

function describeFault(error: unknown): string {
  if (error instanceof Error) return error.stack ?? error.message;
  return typeof error === 'string' ? error : JSON.stringify(error);
}
