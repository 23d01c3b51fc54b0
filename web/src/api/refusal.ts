/** Why the server did not do what was asked, in its own words; `status` 0 is no answer at all. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly fact: string;
  readonly next: string;
  /** The field of the request that it is about, as the server calls it. */
  readonly field: string | undefined;

  constructor(
    status: number,
    parts: { code: string; fact: string; next: string; field?: string | undefined },
  ) {
    super(`${parts.fact} ${parts.next}`);
    this.name = 'Refusal';
    this.status = status;
    this.code = parts.code;
    this.fact = parts.fact;
    this.next = parts.next;
    this.field = parts.field;
  }
}

/** Turns any error of a call into a refusal, so that people always see a fact and a next step. */
export function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal(0, {
    code: 'no-answer',
    fact: 'The server did not answer.',
    next: 'See whether "plimsoll serve" still runs; the page tries again by itself.',
  });
}

/** The error that stands in an answer; one that is not ours still tells its status. */
export function refusalOf(status: number, body: unknown): Refusal {
  const error = partOf(body, 'error');
  const fact = textOf(partOf(error, 'fact'));
  if (fact === undefined) {
    return new Refusal(status, {
      code: `status-${status}`,
      fact: `The server answered with the status ${status}.`,
      next: 'Its own output says more.',
    });
  }
  const code = textOf(partOf(error, 'code')) ?? `status-${status}`;
  const next = textOf(partOf(error, 'next')) ?? '';
  return new Refusal(status, { code, fact, next, field: textOf(partOf(error, 'field')) });
}

function partOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && key in value
    ? Object.getOwnPropertyDescriptor(value, key)?.value
    : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
