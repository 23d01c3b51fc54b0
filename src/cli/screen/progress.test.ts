import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Output, outputOf } from '../io.js';
import { type Announce, openLiveProgress, showBusy } from './progress.js';

/** An output of 80 columns that keeps what is written to it. */
function keptOutput(isTTY: boolean): { output: Output; written: string[] } {
  const written: string[] = [];
  const stream = {
    isTTY,
    columns: 80,
    write: (text: string) => written.push(text),
    on() {},
    once() {},
    off() {},
  };
  return { output: outputOf(stream, {}), written };
}

describe('a line that lives', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('goes on while no words come, and leaves nothing behind', () => {
    vi.useFakeTimers();
    const { output, written } = keptOutput(true);
    const progress = openLiveProgress(output, false);
    progress.show('The program builds its model');
    vi.advanceTimersByTime(3000);
    expect(written.at(-1)).toMatch(/^\r-+#####-+ The program builds its model ... 3.0 s/);
    progress.end();
    const { length } = written;
    expect(written.at(-1)).toBe('\r\u001B[K');
    vi.advanceTimersByTime(3000);
    expect(written).toHaveLength(length);
  });

  it('has a bar where it is known how far it is', () => {
    const { output, written } = keptOutput(true);
    const progress = openLiveProgress(output, true);
    progress.show('Tracing step 2 of 2', 0.5);
    progress.end();
    expect(written[0]).toMatch(/^\r.{20} Tracing step 2 of 2 /);
  });

  it('writes nothing where no one looks', () => {
    const { output, written } = keptOutput(false);
    const progress = openLiveProgress(output, true);
    progress.show('Tracing');
    progress.end();
    expect(written).toEqual([]);
  });
});

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
