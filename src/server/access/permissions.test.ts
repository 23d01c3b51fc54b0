import { describe, expect, it } from 'vitest';
import { madeAttempt, madeJob } from '../../jobs/daemon/made-for-tests.js';
import { openPeople } from './people.js';
import {
  asSeenBy,
  hasOutput,
  owner,
  ownsJob,
  type Role,
  requireOwn,
  requirePermission,
  withoutOutput,
} from './permissions.js';
import type { User } from './users/user-store.js';

const as = (role: Role, name = 'ada') => ({ ...owner, name, role });
const outOfMemory = {
  kind: 'cuda',
  askedBytes: 1,
  freeBytes: 2,
  totalBytes: 3,
  message: 'private',
} as const;

describe('what a role may do', () => {
  it.each([
    ['viewer', true, false],
    ['user', true, true],
    ['admin', true, true],
  ] as const)('%s: read %s, work %s', (role, read, work) => {
    const may = (needed: 'read' | 'work') => {
      try {
        requirePermission(as(role), needed);
        return true;
      } catch (error) {
        expect(error).toMatchObject({ code: 'role-not-allowed' });
        return false;
      }
    };
    expect([may('read'), may('work')]).toEqual([read, work]);
  });

  it.each([
    ['viewer', 'ada', false],
    ['user', 'ada', true],
    ['user', 'bob', false],
    ['admin', 'bob', true],
  ] as const)('a %s owns a job of %s: %s', (role, of, owns) => {
    const job = madeJob({ id: '7', owner: of });
    expect(ownsJob(as(role), job)).toBe(owns);
    const required = () => requireOwn(as(role), job, 'cancel it');
    if (owns) expect(required).not.toThrow();
    else expect(required).toThrow(expect.objectContaining({ code: 'not-your-job' }));
  });
});

describe('the output of a job', () => {
  const holders = { atSeconds: 1, totalBytes: 9, othersBytes: 'unknown', processes: [] } as const;

  it.each([
    ['nothing', {}, false],
    ['no lines', { lastLines: [] }, false],
    ['an error without words', { outOfMemory: { ...outOfMemory, message: '' } }, false],
    ['an error', { outOfMemory }, true],
    ['a snapshot', { snapshot: { file: '/private', findings: [] } }, true],
    ['who held memory', { holders }, true],
    ['lines', { lastLines: ['private'] }, true],
  ] as const)('is %s', (_, parts, has) => {
    const job = madeJob({ id: '7', owner: 'bob', attempts: [madeAttempt(), madeAttempt(parts)] });
    expect(hasOutput(job)).toBe(has);
    const shown = asSeenBy(as('user'), job);
    expect(shown === job).toBe(!has);
    expect(hasOutput(shown)).toBe(false);
    expect(JSON.stringify(shown)).not.toContain('private');
    expect(asSeenBy(as('user', 'bob'), job)).toBe(job);
    expect(withoutOutput(job).attempts).toHaveLength(2);
  });

  it('leaves what others may know of an error', () => {
    const job = madeJob({ id: '7', attempts: [madeAttempt({ outOfMemory })] });
    expect(withoutOutput(job).attempts[0]?.outOfMemory).toEqual({ ...outOfMemory, message: '' });
  });
});

describe('the people whom a server knows', () => {
  const ada: User = {
    name: 'ada',
    role: 'user',
    tokenId: 'id',
    tokenHash: 'hash',
    maxMemoryBytes: 40,
    maxJobs: 2,
    account: 'ada-unix',
    addedAt: '',
  };
  const found = (known: string) => (given: string) => (given === known ? ada : undefined);
  const users = {
    byToken: found('hers'),
    byTokenId: found('id'),
    byName: found('ada'),
    byAccount: found('ada-unix'),
  };
  const person = {
    subject: 'user:ada',
    secret: 'hash',
    identity: {
      name: 'ada',
      role: 'user',
      account: 'ada-unix',
      quota: { maxMemoryBytes: 40, maxJobs: 2 },
    },
  };
  const itself = { subject: '', secret: 'the token of the server', identity: owner };

  it.each([
    ['byToken', 'hers', person],
    ['byToken', 'the token of the server', itself],
    ['byToken', 'other', undefined],
    ['byTokenId', 'id', person],
    ['byTokenId', 'other', undefined],
    ['bySubject', '', itself],
    ['bySubject', 'user:ada', person],
    ['bySubject', 'user:bob', undefined],
    ['bySubject', 'user:', undefined],
    ['bySubject', 'ada', undefined],
    ['bySubject', 'x user:ada', undefined],
    ['byAccount', 'ada-unix', person],
    ['byAccount', 'other', undefined],
  ] as const)('%s(%j)', (by, given, expected) => {
    expect(openPeople(itself.secret, users)[by](given)).toEqual(expected);
    if (expected === person) expect(openPeople('x', undefined)[by](given)).toBeUndefined();
  });
});
