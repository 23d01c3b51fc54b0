import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { stopOnSignals } from './stop.js';

class FakeProcess extends EventEmitter {
  readonly pid = 42;
  readonly killed: string[] = [];

  kill(pid: number, signal: string): void {
    this.killed.push(`${pid} ${signal}`);
  }
}

describe('stopOnSignals', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('ends on %s with exit code %i', (signal, exitCode) => {
    const source = new FakeProcess();
    const stop = stopOnSignals([], source);
    expect(stop.signal.aborted).toBe(false);
    source.emit(signal);
    expect(stop.signal.aborted).toBe(true);
    expect(stop.interruptedBy).toBe(exitCode);
  });

  it('takes one Ctrl-C that arrives twice for one', () => {
    let now = 0;
    const source = new FakeProcess();
    stopOnSignals([], source, () => now);
    source.emit('SIGINT');
    now = 50;
    source.emit('SIGINT');
    expect(source.killed).toEqual([]);
    expect(source.listenerCount('SIGINT')).toBe(1);
  });

  it('ends the process at once on a signal that comes later', () => {
    let now = 0;
    const source = new FakeProcess();
    const stop = stopOnSignals([], source, () => now);
    source.emit('SIGINT');
    now = 2000;
    source.emit('SIGTERM');
    expect(source.killed).toEqual(['42 SIGTERM']);
    expect(source.eventNames()).toEqual([]);
    expect(stop.interruptedBy).toBe(130);
  });

  it('ends quietly when a reader leaves', () => {
    const reader = new AbortController();
    const stop = stopOnSignals([reader.signal], new FakeProcess());
    reader.abort();
    expect(stop.signal.aborted).toBe(true);
    expect(stop.interruptedBy).toBeUndefined();
  });

  it('listens no more once disposed', () => {
    const source = new FakeProcess();
    stopOnSignals([], source)[Symbol.dispose]();
    expect(source.eventNames()).toEqual([]);
  });
});
