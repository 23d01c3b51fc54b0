import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeAlert } from '../fake-device-for-tests.js';
import type { Alert } from '../types.js';
import { alertLine, createDeliveryQueue, deliverToCallback, deliverToLog } from './deliver.js';

function collect(): { problems: string[]; report: (problem: string) => void } {
  const problems: string[] = [];
  return { problems, report: (problem) => problems.push(problem) };
}

describe('a callback', () => {
  it('is handed each alert, and may fail without harm', async () => {
    const { problems, report } = collect();
    const seen: number[] = [];
    const sink = deliverToCallback((alert) => {
      seen.push(alert.atSeconds);
      if (alert.atSeconds === 1) throw new Error('thrown');
      if (alert.atSeconds === 2) return Promise.reject(new Error('rejected'));
      return undefined;
    });
    for (const atSeconds of [1, 2, 3]) sink.deliver(fakeAlert({ atSeconds }), report);
    await sink.close('drain');
    expect(seen).toEqual([1, 2, 3]);
    expect(problems).toEqual([
      'An alert callback failed: Error: thrown',
      'An alert callback failed: Error: rejected',
    ]);
  });
});

describe('a log line', () => {
  it('says when, how bad, what, where and why', () => {
    expect(alertLine(fakeAlert())).toBe(
      '2025-01-15T10:30:00.000Z [CRITICAL] gpu-critical: gpu:0 (Fake GPU, simulated) uses 96.0 % of its memory. (simulated)',
    );
    expect(alertLine(fakeAlert({ state: 'cleared' }))).toContain('Z [CLEARED] gpu-critical: ');
  });

  it('is one line without control characters, whatever the names in it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (message) => {
        expect(alertLine(fakeAlert({ message }))).not.toMatch(/\p{Cc}/u);
      }),
    );
    expect(alertLine(fakeAlert({ message: 'a\n\u001b[2Jb' }))).toMatch(/: a \[2Jb \(/);
  });

  it('goes to the stream, and a stream that throws is reported', () => {
    const { problems, report } = collect();
    const lines: string[] = [];
    deliverToLog({ write: (text) => lines.push(text) }).deliver(fakeAlert(), report);
    expect(lines).toEqual([`${alertLine(fakeAlert())}\n`]);
    const broken = deliverToLog({
      write() {
        throw new Error('disk full');
      },
    });
    broken.deliver(fakeAlert(), report);
    expect(problems).toEqual(['The alert log cannot be written: Error: disk full']);
  });
});

describe('the delivery queue', () => {
  it('runs so many at a time, lets so many wait, and gives up the oldest beyond that', async () => {
    const { problems, report } = collect();
    const started: number[] = [];
    const finish: (() => void)[] = [];
    const sink = createDeliveryQueue({
      name: 'It',
      concurrency: 2,
      capacity: 3,
      work: (alert: Alert) =>
        new Promise((resolve) => {
          started.push(alert.atSeconds);
          finish.push(resolve);
        }),
    });
    for (let atSeconds = 0; atSeconds < 8; atSeconds++) {
      sink.deliver(fakeAlert({ atSeconds }), report);
    }
    expect(started).toEqual([0, 1]);
    expect(problems).toEqual(['It is too slow: alerts were left out.']);
    const closed = sink.close('drain');
    for (let done = 0; done < 5; done++) {
      finish[done]?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await closed;
    expect(started).toEqual([0, 1, 5, 6, 7]);
  });

  it('reports the first of a run of failures', async () => {
    const { problems, report } = collect();
    const sink = createDeliveryQueue({
      name: 'It',
      concurrency: 1,
      capacity: 100,
      work: ({ atSeconds }) =>
        atSeconds === 3 ? Promise.resolve() : Promise.reject(new Error(`no ${atSeconds}`)),
    });
    for (let atSeconds = 0; atSeconds < 7; atSeconds++) {
      sink.deliver(fakeAlert({ atSeconds }), report);
    }
    await sink.close('drain');
    expect(problems).toEqual(['It failed: no 0', 'It failed: no 4']);
  });

  it('gives everything up when stopped, in silence', async () => {
    const { problems, report } = collect();
    let begun = 0;
    const sink = createDeliveryQueue({
      name: 'It',
      concurrency: 1,
      capacity: 100,
      work: (_alert, signal) =>
        new Promise((_resolve, reject) => {
          begun++;
          signal.addEventListener('abort', () => reject(new Error('stopped')));
        }),
    });
    for (let count = 0; count < 5; count++) sink.deliver(fakeAlert(), report);
    await sink.close('stop');
    sink.deliver(fakeAlert(), report);
    expect(begun).toBe(1);
    expect(problems).toEqual([]);
  });
});
