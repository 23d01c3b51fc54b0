import type { Failure, FailureKind } from '../../failure.js';

export type ErrorStatus =
  | 400
  | 401
  | 403
  | 404
  | 405
  | 408
  | 409
  | 413
  | 414
  | 415
  | 422
  | 429
  | 431
  | 500
  | 501
  | 503
  | 507;

/** What a failure means where its code says nothing more. */
const byKind: Readonly<Record<FailureKind, ErrorStatus>> = {
  input: 400,
  /** A program or driver that this machine lacks: asking again changes nothing. */
  missing: 501,
  job: 422,
  interrupted: 503,
};

const byCode: Readonly<Record<string, ErrorStatus>> = {
  'no-token': 401,
  'wrong-token': 401,
  'used-link': 401,
  'foreign-host': 403,
  'foreign-origin': 403,
  'role-not-allowed': 403,
  'not-your-job': 403,
  'no-account': 403,
  'not-a-local-user': 403,
  'not-as-root': 403,
  'unknown-route': 404,
  'unknown-job': 404,
  'unknown-device': 404,
  'unknown-run': 404,
  'no-report': 404,
  'no-snapshot': 404,
  'snapshot-gone': 404,
  'unreadable-snapshot': 422,
  'no-page': 404,
  'no-fleet': 404,
  'wrong-method': 405,
  'slow-request': 408,
  'job-has-ended': 409,
  'job-not-running': 409,
  'no-room': 409,
  'bad-change': 409,
  'body-too-large': 413,
  'address-too-long': 414,
  'wrong-content-type': 415,
  'packed-body': 415,
  'too-many-wrong-tokens': 429,
  'headers-too-large': 431,
  'queue-full': 503,
  'too-many-streams': 503,
  'too-many-answers': 503,
  'too-busy': 503,
  closing: 503,
  'daemon-closed': 503,
  'no-prometheus': 503,
  'fleet-too-large': 503,
  'prometheus-refused': 503,
  'prometheus-failed': 503,
  'prometheus-slow': 503,
  'prometheus-unreachable': 503,
  'broken-store': 500,
  'cannot-keep-state': 503,
  'store-in-use': 503,
  'store-unreachable': 503,
  'cannot-write': 507,
  'disk-full': 507,
};

/**
 * The one place that turns a failure into an HTTP status.
 *
 * @example
 * statusOf({ kind: 'input', code: 'unknown-job' }); // 404
 */
export function statusOf({ kind, code }: Pick<Failure, 'kind' | 'code'>): ErrorStatus {
  return (Object.hasOwn(byCode, code) ? byCode[code] : undefined) ?? byKind[kind];
}

/** It may be well again in a moment. */
const passing: ReadonlySet<string> = new Set([
  'too-many-streams',
  'too-many-answers',
  'too-busy',
  'queue-full',
  'closing',
  'daemon-closed',
  'store-in-use',
]);

/** Those who may simply ask again are told when. */
export function retryAfterSeconds(code: string): number | undefined {
  if (code === 'too-many-wrong-tokens') return 60;
  return passing.has(code) ? 5 : undefined;
}
