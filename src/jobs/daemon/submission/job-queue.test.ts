import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../../time/clock.js';
import { roomsWith, waitingJob } from '../../queue-for-tests.js';
import { JobQueue, QueueClock, resumedMs } from './job-queue.js';

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

const day = 86_400_000;
const kept = { boot: 'a', upMs: 5000, queueMs: 1_000_000, epochMs: 2_000_000 };

describe('the time of the queue', () => {
  it('begins as the date, and counts what passes, however the date is set', async () => {
    const clock = createVirtualClock({ epochMs: 1_000_000 });
    const queue = new QueueClock(clock, undefined);
    expect(queue.nowMs()).toBe(1_000_000);
    clock.jump(86_400);
    await clock.advance(10);
    expect(queue.nowMs()).toBe(1_010_000);
    expect(queue.toEpochMs(1_015_000)).toBe(1_015_000 + day);
    clock.jump(-2 * 86_400);
    expect(queue.nowMs()).toBe(1_010_000);
  });

  it('goes on in the next daemon by how long the machine has been running', () => {
    const later = { boot: 'a', upMs: 9000, epochMs: 2_000_000 + day };
    expect(resumedMs(kept, later)).toBe(1_004_000);
    expect(resumedMs(kept, { ...later, epochMs: 0 })).toBe(1_004_000);
  });

  it('goes on by the date after the machine was off, and never goes back', () => {
    const other = { boot: 'b', upMs: 100, epochMs: 2_060_000 };
    expect(resumedMs(kept, other)).toBe(1_060_000);
    expect(resumedMs(kept, { ...other, epochMs: 1 })).toBe(1_000_000);
    // A system that names no boot.
    expect(resumedMs({ ...kept, boot: '' }, { ...other, boot: '' })).toBe(1_060_000);
    // The same boot, as a container of another time namespace sees it.
    expect(resumedMs(kept, { ...other, boot: 'a' })).toBe(1_060_000);
  });
});
