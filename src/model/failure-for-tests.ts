import { Failure } from '../failure.js';

/** The `Failure` that a call throws; any other end is an error. */
export function failureOf(call: () => unknown): Failure {
  try {
    call();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('no Failure was thrown');
}

/** How a reader takes bytes from nowhere: `read`, or the code of its refusal. */
export function outcomeOf(call: () => unknown): string {
  try {
    call();
    return 'read';
  } catch (error) {
    if (error instanceof Failure && error.kind === 'input') return error.code;
    throw error;
  }
}
