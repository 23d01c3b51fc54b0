import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { throttle } from '../monitor/monitor-screen.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('throttle', () => {
  it('acts at once, then at most once in the time given, and not without being asked', () => {
    const act = vi.fn<() => void>();
    const drawing = throttle(act, 100);
    for (let ms = 0; ms < 1000; ms += 10) {
      drawing.ask();
      vi.advanceTimersByTime(10);
    }
    expect(act).toHaveBeenCalledTimes(11);
    vi.advanceTimersByTime(10_000);
    expect(act).toHaveBeenCalledTimes(11);
  });

  it('does not lose the last time it was asked', () => {
    const act = vi.fn<() => void>();
    const drawing = throttle(act, 100);
    drawing.ask();
    drawing.ask();
    expect(act).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(100);
    expect(act).toHaveBeenCalledTimes(2);
  });

  it('does nothing more once cancelled', () => {
    const act = vi.fn<() => void>();
    const drawing = throttle(act, 100);
    drawing.ask();
    drawing.ask();
    drawing.cancel();
    vi.advanceTimersByTime(1000);
    expect(act).toHaveBeenCalledTimes(1);
  });
});
