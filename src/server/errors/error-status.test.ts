import { describe, expect, it } from 'vitest';
import { Failure, type FailureKind } from '../../failure.js';
import { errorAnswer } from './error-body.js';
import { retryAfterSeconds, statusOf } from './error-status.js';

describe('the status of a failure', () => {
  it.each<[FailureKind, string, number]>([
    ['input', 'bad-field', 400],
    ['input', 'anything-else', 400],
    ['input', 'constructor', 400],
    ['input', 'no-token', 401],
    ['input', 'foreign-host', 403],
    ['input', 'unknown-job', 404],
    ['input', 'unknown-device', 404],
    ['input', 'job-has-ended', 409],
    ['input', 'body-too-large', 413],
    ['input', 'wrong-content-type', 415],
    ['job', 'no-such-program', 422],
    ['missing', 'no-torch', 501],
    ['input', 'queue-full', 503],
    ['missing', 'store-unreachable', 503],
    ['missing', 'disk-full', 507],
    ['missing', 'cannot-write', 507],
    ['interrupted', 'interrupted', 503],
  ])('%s %s is %i', (kind, code, status) => expect(statusOf({ kind, code })).toBe(status));

  it('tells those who may ask again when', () => {
    for (const code of ['queue-full', 'too-many-streams', 'too-many-answers', 'too-busy']) {
      expect(retryAfterSeconds(code)).toBeGreaterThan(0);
    }
    expect(retryAfterSeconds('bad-field')).toBeUndefined();
  });

  it('shows what a terminal could act on as blanks', () => {
    const failure = new Failure({
      kind: 'input',
      code: 'unknown-job',
      fact: 'no job "\u001b[2J\n"',
      next: 'x',
    });
    expect(errorAnswer(failure).body.error.fact).toBe('no job " [2J "');
  });
});
