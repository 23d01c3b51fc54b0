import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { stopOnSignals } from './stop.js';

describe('stopOnSignals', () => {
  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('ends on %s with exit code %i', (signal, exitCode) => {
    const source = new EventEmitter();
    const stop = stopOnSignals([], source);
    expect(stop.signal.aborted).toBe(false);
    source.emit(signal);
    expect(stop.signal.aborted).toBe(true);
    expect(stop.interruptedBy).toBe(exitCode);
  });

  it('lets a second signal have its usual effect', () => {
    const source = new EventEmitter();
    stopOnSignals([], source);
    source.emit('SIGINT');
    expect(source.listenerCount('SIGINT')).toBe(0);
  });

  it('ends quietly when a reader leaves', () => {
    const reader = new AbortController();
    const stop = stopOnSignals([reader.signal], new EventEmitter());
    reader.abort();
    expect(stop.signal.aborted).toBe(true);
    expect(stop.interruptedBy).toBeUndefined();
  });

  it('listens no more once disposed', () => {
    const source = new EventEmitter();
    stopOnSignals([], source)[Symbol.dispose]();
    expect(source.eventNames()).toEqual([]);
  });
});
