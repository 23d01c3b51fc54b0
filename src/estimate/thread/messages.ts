import { Failure, type FailureKind } from '../../failure.js';
import type { AnyAnswer } from '../estimate-work.js';
import { NoFormula } from '../formula/no-formula.js';

/** What a thread sends back. Classes do not survive the way, so errors are sent as their parts. */
export type ThreadAnswer =
  | { readonly kind: 'done'; readonly answer: AnyAnswer }
  | {
      readonly kind: 'failure';
      readonly failure: {
        readonly kind: FailureKind;
        readonly code: string;
        readonly fact: string;
        readonly next: string;
      };
    }
  | { readonly kind: 'no-formula'; readonly what: string }
  | { readonly kind: 'error'; readonly message: string; readonly stack: string };

export function answerOfError(error: unknown): ThreadAnswer {
  if (error instanceof NoFormula) return { kind: 'no-formula', what: error.what };
  if (error instanceof Failure) {
    const { kind, code, fact, next } = error;
    return { kind: 'failure', failure: { kind, code, fact, next } };
  }
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  return { kind: 'error', message, stack };
}

/** What was asked for, or the error as it was thrown in the thread. */
export function readAnswer(answer: ThreadAnswer): AnyAnswer {
  if (answer.kind === 'done') return answer.answer;
  if (answer.kind === 'failure') throw new Failure(answer.failure);
  if (answer.kind === 'no-formula') throw new NoFormula(answer.what);
  throw Object.assign(new Error(answer.message), { stack: answer.stack });
}
