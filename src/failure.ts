/** The kind of error; one place maps it to an exit code and an HTTP status. */
export type FailureKind = 'input' | 'missing' | 'job' | 'interrupted';

const exitCodes: Record<FailureKind, number> = { input: 2, missing: 3, job: 4, interrupted: 130 };

/**
 * An error a person can act on: a stable code, the fact, and the next step.
 *
 * @example
 * throw new Failure({
 *   kind: 'input',
 *   code: 'unknown-device',
 *   fact: 'There is no device gpu:7; this machine has gpu:0, host.',
 *   next: 'Run "plimsoll devices" to see them.',
 * });
 */
export class Failure extends Error {
  readonly kind: FailureKind;
  readonly code: string;
  readonly fact: string;
  readonly next: string;
  /** The field of a request that it is about: `workload.batch`. */
  readonly field: string | undefined;

  constructor(parts: {
    kind: FailureKind;
    code: string;
    fact: string;
    next: string;
    field?: string | undefined;
    cause?: unknown;
  }) {
    super(`${parts.fact} ${parts.next}`, parts.cause === undefined ? {} : { cause: parts.cause });
    this.name = 'Failure';
    this.kind = parts.kind;
    this.code = parts.code;
    this.fact = parts.fact;
    this.next = parts.next;
    this.field = parts.field;
  }

  get exitCode(): number {
    return exitCodes[this.kind];
  }
}
