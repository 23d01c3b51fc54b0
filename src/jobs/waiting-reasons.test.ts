import { describe, expect, it } from 'vitest';
import { roomsWith, runningJob, waitingJob } from './queue-for-tests.js';
import { explainWaiting } from './waiting-reasons.js';

describe('explainWaiting', () => {
  it('tells why each waits, and when it should start', () => {
    const running = [runningJob('a', 60, ['gpu:0'], 100_000)];
    const hold = { jobId: '1', devices: ['gpu:0'], sinceMs: 0 };
    const waiting = [
      waitingJob('1', 80, { expectedSeconds: 50 }),
      waitingJob('2', 30, { expectedSeconds: 500 }),
      waitingJob('3', 90),
      waitingJob('4', 5, { expectedSeconds: 90 }),
    ];
    const rooms = roomsWith(1, running);
    const told = explainWaiting({ waiting, running, rooms, hold, nowMs: 0 });
    expect(told).toEqual([
      {
        id: '1',
        position: 1,
        reason: 'It needs 80 B on a device; the most that is free is 30 B. gpu:0 is kept for it.',
        expectedStartMs: 100_000,
      },
      {
        id: '2',
        position: 2,
        reason: 'It would fit, but would take room from job 1, whose turn comes first.',
        expectedStartMs: 150_000,
      },
      {
        id: '3',
        position: 3,
        reason: 'It needs 90 B on a device; the most that is free is 30 B.',
        expectedStartMs: 650_000,
      },
      { id: '4', position: 4, reason: expect.any(String), expectedStartMs: 0 },
    ]);
  });

  it('says when it cannot know', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [waitingJob('1', 80)];
    const [told] = explainWaiting({
      waiting,
      running,
      rooms: roomsWith(1, running),
      hold: undefined,
      nowMs: 0,
    });
    expect(told?.expectedStartMs).toBe('unknown');
  });

  it('names what blocks it beside jobs', () => {
    const why = (
      rooms: ReturnType<typeof roomsWith>,
      settings = {},
      running = [runningJob('a', 5, [])],
    ) =>
      explainWaiting(
        { waiting: [waitingJob('1', 80)], running, rooms, hold: undefined, nowMs: 0 },
        settings,
      )[0]?.reason;
    expect(why(roomsWith(1, [], [40]))).toContain('Other processes are using the memory.');
    expect(why(roomsWith(1, [], ['unknown']))).toContain('has not been read yet');
    expect(why(roomsWith(1, []), { maxRunning: 1 })).toBe(
      'The concurrent-job limit (1) is reached.',
    );
    const [room] = roomsWith(1, []);
    expect(why(room ? [{ ...room, freeBytes: 10, releasingBytes: 80 }] : [])).toContain(
      'has not been freed yet',
    );
    expect(why(roomsWith(1, []))).toBe('It is about to start.');
  });

  it('tells no figure of a job of which nothing is known', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [{ ...waitingJob('1', 90, { basis: 'unknown' }), alone: true }];
    const state = { waiting, running, rooms: roomsWith(1, running), hold: undefined, nowMs: 0 };
    expect(explainWaiting(state)[0]?.reason).toBe(
      'It needs a whole device for its first run; the most that is free is 30 B.',
    );
  });
});
