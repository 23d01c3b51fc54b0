import { describe, expect, it } from 'vitest';
import { roomsWith, waitingJob } from '../../queue-for-tests.js';
import { JobQueue } from './job-queue.js';

describe('JobQueue', () => {
  it('tells places in the order in which jobs start, beyond those that are looked at, too', () => {
    const known = { expectedSeconds: 60 };
    const crowd = Array.from({ length: 1100 }, (_, index) =>
      waitingJob(String(index + 1), 90, { ...known, priority: -1 }),
    );
    const queue = new JobQueue(
      [waitingJob('small', 20, known), waitingJob('large', 80, known), ...crowd],
      {},
    );
    const rooms = roomsWith(1, []);
    const time = { nowMs: () => 0, toEpochMs: (ms: number) => ms };
    const placeOf = (id: string) => queue.waitingOf(id, () => rooms, time)?.position;
    expect(placeOf('large')).toBe(1);
    expect(placeOf('small')).toBe(2);
    expect(placeOf('1100')).toBe(1102);
    expect(queue.admit(rooms, 0).starts.map(({ job }) => job.id)).toEqual(['large']);
    expect(queue.first(2).map(({ id }) => id)).toEqual(['large', 'small']);
    expect(placeOf('gone')).toBeUndefined();
  });
});
