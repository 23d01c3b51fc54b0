import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Known } from '../units/known.js';
import { onWorkLimit, processSeconds, secondsOf } from './work-limit.js';

const limit = { seconds: 100, clockSeconds: 1000 };

describe('onWorkLimit', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** The second by the clock at which work ends that gets this share of a processor. */
  function endsAt(share: Known<number>): number {
    const ended: number[] = [];
    let seconds = 0;
    const spent = () => (share === 'unknown' ? share : 7 + seconds * share);
    const stop = onWorkLimit(limit, spent, () => ended.push(seconds));
    while (seconds < 2000) {
      seconds += 1;
      vi.advanceTimersByTime(1000);
    }
    stop();
    expect(ended).toHaveLength(1);
    return ended[0] ?? 0;
  }

  it('counts the time of a processor, not the time that work waits for one', () => {
    expect(endsAt(1)).toBe(100);
    for (const share of [0.5, 0.2]) {
      expect(endsAt(share)).toBeGreaterThanOrEqual(100 / share);
      expect(endsAt(share)).toBeLessThan(106 / share);
    }
  });

  it('ends what hangs by the clock, and what nothing is known of', () => {
    expect(endsAt(0)).toBe(1000);
    expect(endsAt(0.01)).toBe(1000);
    expect(endsAt('unknown')).toBe(100);
  });

  it('does not end earlier where other threads use processors, too', () => {
    expect(endsAt(4)).toBe(100);
  });

  it('ends nothing once it is stopped', () => {
    let ended = false;
    const stop = onWorkLimit(
      limit,
      () => 0,
      () => (ended = true),
    );
    vi.advanceTimersByTime(150_000);
    stop();
    vi.advanceTimersByTime(5_000_000);
    expect(ended).toBe(false);
  });
});

describe('time of a processor', () => {
  it('grows with work, for this process and by its number', () => {
    const before = { own: processSeconds(), byNumber: secondsOf(process.pid) };
    for (let at = 0; processSeconds() < before.own + 0.2; at += 1) JSON.stringify({ at });
    expect(processSeconds()).toBeGreaterThan(before.own);
    if (process.platform === 'linux') {
      expect(secondsOf(process.pid)).toBeGreaterThan(Number(before.byNumber));
    }
  });

  it('is unknown of a process that is not there', () => {
    // Above the highest number that a kernel gives.
    expect(secondsOf(2 ** 23)).toBe('unknown');
  });
});
