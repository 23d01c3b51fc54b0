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
    const explained = explainWaiting({ waiting, running, rooms, hold, nowMs: 0 });
    const facts = { bytes: 80, devices: 1, wholeDevice: false, freeBytes: 30, keptDevices: [] };
    const behind = (jobId: string) => ({ code: 'earlier', jobId, seconds: 0 });
    expect(explained).toEqual([
      {
        id: '1',
        position: 1,
        reason: { code: 'memory-in-use', ...facts, keptDevices: ['gpu:0'] },
        order: null,
        expectedStartMs: 100_000,
      },
      {
        id: '2',
        position: 2,
        reason: { code: 'behind-job', jobId: '1' },
        order: behind('1'),
        expectedStartMs: 150_000,
      },
      {
        id: '3',
        position: 3,
        reason: { code: 'memory-in-use', ...facts, bytes: 90 },
        order: behind('2'),
        expectedStartMs: 650_000,
      },
      {
        id: '4',
        position: 4,
        reason: { code: 'behind-job', jobId: '1' },
        order: behind('3'),
        expectedStartMs: 0,
      },
    ]);
  });

  it('says when it cannot know', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [waitingJob('1', 80)];
    const [explained] = explainWaiting({
      waiting,
      running,
      rooms: roomsWith(1, running),
      hold: undefined,
      nowMs: 0,
    });
    expect(explained?.expectedStartMs).toBe('unknown');
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
      )[0]?.reason.code;
    expect(why(roomsWith(1, [], [40]))).toBe('other-processes');
    expect(why(roomsWith(1, [], ['unknown']))).toBe('device-not-read');
    expect(why(roomsWith(1, []), { maxRunning: 1 })).toBe('concurrency-limit');
    const [room] = roomsWith(1, []);
    expect(why(room ? [{ ...room, freeBytes: 10, releasingBytes: 80 }] : [])).toBe(
      'memory-being-released',
    );
    expect(why(roomsWith(1, []))).toBe('starting');
  });

  it('says that a job of which nothing is known waits for a whole device', () => {
    const running = [runningJob('a', 60, ['gpu:0'])];
    const waiting = [{ ...waitingJob('1', 90, { basis: 'unknown' }), alone: true }];
    const state = { waiting, running, rooms: roomsWith(1, running), hold: undefined, nowMs: 0 };
    expect(explainWaiting(state)[0]?.reason).toMatchObject({
      code: 'memory-in-use',
      wholeDevice: true,
    });
  });
});
