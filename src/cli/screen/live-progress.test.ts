import { afterEach, describe, expect, it, vi } from 'vitest';
import { openLiveProgress } from './live-progress.js';
import { keptOutput } from './terminal-for-tests.js';

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
