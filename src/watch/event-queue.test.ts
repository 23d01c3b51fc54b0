import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeAlert } from './alerts/alert-for-tests.js';
import { resolveThresholds } from './alerts/alert-thresholds.js';
import { createAlerts } from './alerts/alerts.js';
import { EventQueue } from './event-queue.js';
import { fakeDevice, fakeDiagnosis, memory } from './fake-device-for-tests.js';
import type { WatchEvent } from './types.js';
import { WatchedDevice } from './watched-device.js';

const { info } = fakeDevice();

function sampleEvent(atSeconds: number): WatchEvent {
  const sample = { ...memory(1), device: info, atSeconds, epochMs: 0 };
  const state = new WatchedDevice(sample, {
    alerts: createAlerts(resolveThresholds()),
    createDiagnosis: fakeDiagnosis,
  });
  return { type: 'sample', sample, state };
}

const alertEvent = (atSeconds: number): WatchEvent => ({
  type: 'alert',
  alert: fakeAlert({ atSeconds }),
});

function timeOf(event: WatchEvent | undefined): string {
  if (!event) return 'done';
  if (event.type === 'sample') return `sample ${event.sample.atSeconds}`;
  return event.type === 'alert' ? `alert ${event.alert.atSeconds}` : event.type;
}

const next = async (queue: EventQueue): Promise<string> => timeOf((await queue.take()).value);

describe('the queue of events', () => {
  it('gives everything in order to a consumer that keeps up', async () => {
    const queue = new EventQueue(2);
    const taken = [next(queue), next(queue), next(queue)];
    queue.push(sampleEvent(0));
    queue.push(alertEvent(1));
    queue.push(sampleEvent(2));
    expect(await Promise.all(taken)).toEqual(['sample 0', 'alert 1', 'sample 2']);
    expect(queue.droppedSamples).toBe(0);
  });

  it('drops the oldest samples of a slow one and says how many, but never an alert', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.boolean(), { maxLength: 60 }),
        fc.integer({ min: 1, max: 10 }),
        async (isSample, limit) => {
          const queue = new EventQueue(limit);
          const first = next(queue);
          queue.push(sampleEvent(-1));
          await first;
          for (const [at, sample] of isSample.entries()) {
            queue.push(sample ? sampleEvent(at) : alertEvent(at));
          }
          queue.end();
          const kept = [...isSample.entries()].filter(([, sample]) => sample).slice(-limit);
          const lost = isSample.filter(Boolean).length - kept.length;
          const oldest = kept[0]?.[0] ?? Number.POSITIVE_INFINITY;
          const expected = [...isSample.entries()]
            .filter(([at, sample]) => !sample || at >= oldest)
            .map(([at, sample]) => `${sample ? 'sample' : 'alert'} ${at}`);
          for (const wanted of expected) expect(await next(queue)).toBe(wanted);
          expect(await next(queue)).toBe('done');
          expect(queue.droppedSamples).toBe(lost);
        },
      ),
    );
  });

  it('does not grow without bound while nothing is taken', async () => {
    const queue = new EventQueue(3);
    for (let at = 0; at < 100; at++) queue.push(alertEvent(at));
    queue.end();
    expect([await next(queue), await next(queue), await next(queue), await next(queue)]).toEqual([
      'alert 97',
      'alert 98',
      'alert 99',
      'done',
    ]);
  });

  it('ends those who wait, once with the error if there is one', async () => {
    const queue = new EventQueue(3);
    const waiting = [queue.take(), queue.take()];
    queue.end({ error: new Error('ours') });
    queue.push(alertEvent(1));
    await expect(waiting[0]).rejects.toThrow('ours');
    expect((await waiting[1])?.done).toBe(true);
    expect(await next(queue)).toBe('done');
  });

  it('throws away what waits when told so', async () => {
    const queue = new EventQueue(3);
    queue.push(alertEvent(1));
    queue.end({ discard: true });
    expect(await next(queue)).toBe('done');
  });
});
