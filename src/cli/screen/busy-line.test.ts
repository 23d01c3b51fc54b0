import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Announce, showBusy } from './busy-line.js';
import { keptOutput } from './terminal-for-tests.js';

const io = { stdout: keptOutput(true).output, environment: {} };

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
    let announced: Announce = () => undefined;
    const answer = showBusy({ ...io, stderr }, 'Reading a.pickle', (announce) => {
      announced = announce;
      return work;
    });
    await vi.advanceTimersByTimeAsync(600);
    expect(written).toEqual([]);
    await vi.advanceTimersByTimeAsync(1600);
    expect(written.join('')).toMatch(/·█████·+ Reading a\.pickle \.\.\. 2\.0 s/);
    announced('Analysing a.pickle', 0.5);
    expect(written.at(-1)).toMatch(/^\r█{10}\S{10} Analysing a.pickle ... 2.2 s/);
    finish(7);
    expect(await answer).toBe(7);
    expect(written.at(-1)).toBe('\r\u001B[K');
  });

  it('writes nothing where no one looks, and passes on what went wrong', async () => {
    const { output: stderr, written } = keptOutput(false);
    await expect(
      showBusy({ ...io, stderr }, 'Reading', () => Promise.reject(new Error('no'))),
    ).rejects.toThrow('no');
    expect(written).toEqual([]);
  });
});
