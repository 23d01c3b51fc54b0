import { afterEach, describe, expect, it, vi } from 'vitest';
import { showBusy } from './busy-line.js';
import { keptOutput } from './terminal-for-tests.js';

describe('showBusy', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('says what goes on from the first second on, and leaves no trace', async () => {
    vi.useFakeTimers();
    const { output: stderr, written } = keptOutput(true);
    let finish: (value: number) => void = () => undefined;
    const work = new Promise<number>((resolve) => {
      finish = resolve;
    });
    const answer = showBusy({ stderr }, 'Reading a.pickle', () => work);
    await vi.advanceTimersByTimeAsync(600);
    expect(written).toEqual([]);
    await vi.advanceTimersByTimeAsync(1600);
    expect(written.join('')).toContain('Reading a.pickle ... 2.0 s');
    finish(7);
    expect(await answer).toBe(7);
    expect(written.at(-1)).toBe('\r\u001B[K');
  });

  it('writes nothing where no one looks, and passes on what went wrong', async () => {
    const { output: stderr, written } = keptOutput(false);
    await expect(
      showBusy({ stderr }, 'Reading', () => Promise.reject(new Error('no'))),
    ).rejects.toThrow('no');
    expect(written).toEqual([]);
  });
});
