import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Output, outputOf } from '../io.js';
import { openLiveProgress } from './live-progress.js';

function terminal(isTTY: boolean): { output: Output; written: string[] } {
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
    const { output, written } = terminal(true);
    const progress = openLiveProgress(output, false);
    progress.show('The program builds its model');
    vi.advanceTimersByTime(3000);
    expect(written.at(-1)).toContain('The program builds its model ... 3.0 s');
    progress.end();
    const { length } = written;
    expect(written.at(-1)).toBe('\r\u001B[K');
    vi.advanceTimersByTime(3000);
    expect(written).toHaveLength(length);
  });

  it('has a bar where it is known how far it is', () => {
    const { output, written } = terminal(true);
    const progress = openLiveProgress(output, true);
    progress.show('Tracing step 2 of 2', 0.5);
    progress.end();
    expect(written[0]).toMatch(/^\r.{20} Tracing step 2 of 2 /);
  });

  it('writes nothing where no one looks', () => {
    const { output, written } = terminal(false);
    const progress = openLiveProgress(output, true);
    progress.show('Tracing');
    progress.end();
    expect(written).toEqual([]);
  });
});
