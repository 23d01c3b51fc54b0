import { Failure } from '../../failure.js';
import type { Wording } from '../wording.js';

/** Something in a model that the formula does not know. What to do then, `orTraceInstead` says. */
export class NoFormula extends Error {
  readonly what: string;

  constructor(what: string) {
    super(`There is no formula for ${what}.`);
    this.name = 'NoFormula';
    this.what = what;
  }
}

/** Runs it; what deep inside turned out to be unknown becomes a `Failure` with the next step. */
export function orTraceInstead<T>(run: () => T, wording: Wording): T {
  try {
    return run();
  } catch (error) {
    throw traceInstead(error, wording);
  }
}

/** The error to throw in the place of one from deep inside. */
export function traceInstead(error: unknown, wording: Wording): unknown {
  if (!(error instanceof NoFormula)) return error;
  return new Failure({
    kind: 'input',
    code: 'no-formula',
    fact: error.message,
    next: `Trace the model instead: ${tracing(wording)}`,
    cause: error,
  });
}

/** How to have a model traced, up to the end of the sentence. */
export function tracing({ example }: Wording): string {
  return `${example('method', 'trace')}, where Python and torch are installed.`;
}
