import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { admit } from './admission.js';
import { JobQueue } from './daemon/submission/job-queue.js';
import { roomsWith, runningJob, waitingJob } from './queue-for-tests.js';
import { beyondQuota, type QuotaOf } from './quota.js';
import { explainWaiting } from './waiting-reasons.js';

const owned = (owner: string, id: string, bytes: number, atSeconds = 0) => ({
  ...waitingJob(id, bytes, { atSeconds }),
  owner,
});
const running = (owner: string, id: string, bytes: number, devices = ['gpu:0']) => ({
  ...runningJob(id, bytes, devices),
  owner,
});
const quotas = new Map([
  ['ada', { maxMemoryBytes: 40 }],
  ['bob', { maxJobs: 1 }],
]);
const quotaOf: QuotaOf = (owner) => quotas.get(owner);

function started(
  waiting: readonly ReturnType<typeof owned>[],
  now: readonly ReturnType<typeof running>[] = [],
): readonly string[] {
  const rooms = roomsWith(2, now);
  const state = { waiting, running: now, rooms, holds: [], nowMs: 0 };
  return admit(state, { quotaOf }).starts.map(({ job }) => job.id);
}

describe('quotas at admission', () => {
  it('count the memory of all devices of an owner together', () => {
    expect(started([owned('ada', '2', 11)], [running('ada', '1', 15, ['gpu:0', 'gpu:1'])])).toEqual(
      [],
    );
    expect(started([owned('ada', '2', 10)], [running('ada', '1', 15, ['gpu:0', 'gpu:1'])])).toEqual(
      ['2'],
    );
  });

  it('count what starts in the same moment', () => {
    const jobs = ['1', '2', '3'].map((id) => owned('ada', id, 20, Number(id)));
    expect(started(jobs)).toEqual(['1', '2']);
    expect(started(['1', '2'].map((id) => owned('bob', id, 1, Number(id))))).toEqual(['1']);
  });

  it('hold nothing free for a job that waits for its owner, and others pass it', () => {
    const jobs = [owned('ada', '2', 35), owned('eve', '3', 80, 1), owned('eve', '4', 50, 2)];
    expect(started(jobs, [running('ada', '1', 10)])).toEqual(['3', '4']);
  });

  it('limit no other owner', () => {
    expect(started([owned('eve', '1', 90), owned('eve', '2', 90, 1)])).toEqual(['1', '2']);
  });

  it('are the reason that is told, with both figures', () => {
    const now = [running('ada', '1', 30), running('bob', '2', 10)];
    const state = {
      waiting: [owned('ada', '3', 20), owned('bob', '4', 1)],
      running: now,
      rooms: roomsWith(2, now),
      holds: [],
      nowMs: 0,
    };
    expect(explainWaiting(state, { quotaOf }).map(({ reason }) => reason)).toEqual([
      { code: 'memory-quota', owner: 'ada', bytes: 20, maxMemoryBytes: 40, reservedBytes: 30 },
      { code: 'job-quota', owner: 'bob', maxJobs: 1, runningJobs: 1 },
    ]);
  });
});

describe('a long queue of one owner', () => {
  it('does not hide the jobs of others behind it', () => {
    const many = Array.from({ length: 3000 }, (_, at) => owned('bob', String(at + 1), 1, at));
    const last = owned('eve', '5000', 1, 9000);
    const queue = new JobQueue([...many, last], { quotaOf });
    queue.run(running('bob', '0', 1));
    const { starts } = queue.admit(roomsWith(1, []), 0);
    expect(starts.map(({ job }) => job.id)).toEqual(['5000']);
  });

  it('is counted', () => {
    const queue = new JobQueue([owned('ada', '1', 1), owned('ada', '2', 1)], {});
    queue.add(owned('ada', '3', 1));
    queue.remove('1');
    expect([queue.waitingOfOwner('ada'), queue.waitingOfOwner('bob')]).toEqual([2, 0]);
  });
});

describe('a job alone', () => {
  it('is beyond a quota that it can never fit into', () => {
    const need = { bytes: 30 * GiB, basis: 'stated', gpus: 2 } as const;
    expect(beyondQuota('ada', need, { maxMemoryBytes: 60 * GiB })).toBeUndefined();
    expect(beyondQuota('ada', need, { maxMemoryBytes: 60 * GiB - 1 })).toEqual({
      code: 'over-quota',
      owner: 'ada',
      bytes: 60 * GiB,
      basis: 'stated',
      maxMemoryBytes: 60 * GiB - 1,
    });
    expect(beyondQuota('ada', need, { maxJobs: 1 })).toBeUndefined();
    expect(beyondQuota('ada', need, undefined)).toBeUndefined();
  });

  it('of unknown size is refused as such', () => {
    const need = { bytes: 90 * GiB, basis: 'unknown', gpus: 1, alone: true } as const;
    expect(beyondQuota('ada', need, { maxMemoryBytes: GiB })).toMatchObject({ basis: 'unknown' });
  });
});
