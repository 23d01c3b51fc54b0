import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Device, DeviceLost } from '../device/device.js';
import { Failure } from '../failure.js';
import { createVirtualClock, type VirtualClock } from '../time/clock.js';
import { GiB } from '../units/bytes.js';
import { resolveThresholds } from './alerts/alert-thresholds.js';
import { createAlerts } from './alerts/alerts.js';
import type { AlertSink } from './delivery/deliver.js';
import {
  fakeAlert,
  fakeDevice,
  fakeDiagnosis,
  memory,
  noForecast,
} from './fake-device-for-tests.js';
import type { Alert, WatchEvent } from './types.js';
import { EventQueue, type Watch, type WatchOptions, watch } from './watch.js';
import { WatchedDevice } from './watched-device.js';

function startWatch(options: WatchOptions): { clock: VirtualClock; watching: Watch } {
  const clock = createVirtualClock({ epochMs: 1_000_000 });
  const watching = watch({ intervalSeconds: 1, clock, createDiagnosis: fakeDiagnosis, ...options });
  return { clock, watching };
}

async function collect(watching: Watch): Promise<WatchEvent[]> {
  const events: WatchEvent[] = [];
  for await (const event of watching) events.push(event);
  return events;
}

async function watchFor(seconds: number, options: WatchOptions) {
  const { clock, watching } = startWatch({ durationSeconds: seconds, ...options });
  const collecting = collect(watching);
  await clock.advance(seconds + 5);
  const events = await collecting;
  await watching.closed;
  expect(clock.waiting).toBe(0);
  return { events, watching, clock };
}

const kinds = (events: readonly WatchEvent[]): string[] =>
  events.map((event) =>
    event.type === 'alert' ? `${event.alert.kind} ${event.alert.state}` : event.type,
  );

/** Uses this share of its memory at each second. */
function fullBy(percents: readonly number[], parts: Parameters<typeof fakeDevice>[0] = {}): Device {
  let call = 0;
  return fakeDevice({
    ...parts,
    read: () => memory(((percents[Math.min(call++, percents.length - 1)] ?? 0) / 100) * 10 * GiB),
  });
}

describe('watch', () => {
  it('yields samples with their device, time and state, then ends with the duration', async () => {
    const device = fakeDevice();
    const { events, watching } = await watchFor(3, { devices: [device] });
    expect(kinds(events)).toEqual(['sample', 'sample', 'sample']);
    const second = events[1];
    if (second?.type !== 'sample') throw new Error('The second event is no sample.');
    expect(second.sample).toMatchObject({
      device: device.info,
      atSeconds: 1,
      epochMs: 1_001_000,
      usedBytes: GiB,
    });
    const [state] = watching.states();
    expect(second.state).toBe(state);
    expect(state?.latest.atSeconds).toBe(2);
    expect(state?.history.statistics()).toMatchObject({ samples: 3, maxUsedBytes: GiB });
    expect(state?.forecast).toBe(noForecast);
  });

  it('puts processes into the state as they are read, and into the sample after', async () => {
    const processes = [{ pid: 7, name: 'python', usedBytes: 5 }];
    const fed: number[] = [];
    const { events, watching } = await watchFor(4, {
      devices: [fakeDevice({ processes: () => Promise.resolve(processes) })],
      processIntervalSeconds: 2,
      createDiagnosis: () => fakeDiagnosis({ addProcesses: (seconds) => fed.push(seconds) }),
    });
    const carrying = events.map((event) => event.type === 'sample' && event.sample.processes);
    expect(carrying).toEqual([undefined, processes, undefined, processes]);
    expect(watching.states()[0]?.processes).toEqual(processes);
    expect(fed).toEqual([0, 2]);
  });

  it('yields an alert after its sample, and hands it to callbacks and sinks', async () => {
    const called: Alert[] = [];
    const delivered: Alert[] = [];
    const closings: string[] = [];
    const sink: AlertSink = {
      deliver: (alert) => delivered.push(alert),
      async close(how) {
        closings.push(how);
      },
    };
    const throwing: AlertSink = {
      deliver() {
        throw new Error('a bad sink');
      },
      close: () => Promise.reject(new Error('a bad end')),
    };
    const { events, watching } = await watchFor(4, {
      devices: [fullBy([10, 85, 85, 10])],
      onAlert(alert) {
        called.push(alert);
        throw new Error('a bad callback');
      },
      deliver: [throwing, sink],
    });
    expect(kinds(events)).toEqual([
      'sample',
      'sample',
      'gpu-warning raised',
      'sample',
      'sample',
      'gpu-warning cleared',
    ]);
    const alerts = events.flatMap((event) => (event.type === 'alert' ? [event.alert] : []));
    expect(called).toEqual(alerts);
    expect(delivered).toEqual(alerts);
    expect(closings).toEqual(['drain', 'stop']);
    expect(watching.notes().toSorted()).toEqual([
      'An alert callback failed: Error: a bad callback',
      'An alert sink failed: Error: a bad end',
      'An alert sink failed: Error: a bad sink',
    ]);
  });

  it('takes thresholds, and shows in the state what is raised', async () => {
    const { watching } = await watchFor(2, {
      devices: [fullBy([50])],
      thresholds: { gpuWarningPercent: 40 },
    });
    expect(watching.states()[0]?.alerts.map(({ kind }) => kind)).toEqual(['gpu-warning']);
  });

  it('goes on when a device is lost, clears its alerts, and keeps its history for its return', async () => {
    let call = 0;
    const uuid = 'GPU-abc';
    const lost = fakeDevice({
      uuid,
      read() {
        if (call++ > 2) throw new DeviceLost('gpu:0', 'fell off the bus');
        return memory(9 * GiB);
      },
    });
    const back = fakeDevice({ uuid, id: 'gpu:1' });
    const other = fakeDevice({ id: 'gpu:9' });
    let scans = 0;
    const { events, watching } = await watchFor(12, {
      devices: [lost],
      discovery: {
        devices: [lost],
        notes: ['AMD GPUs cannot be seen here.'],
        rescan: async () => ({ appeared: scans++ === 0 ? [back, other] : [], vanished: [] }),
        close() {
          throw new Error('It belongs to the caller.');
        },
      },
    });
    expect(kinds(events).filter((kind) => kind !== 'sample')).toEqual([
      'gpu-warning raised',
      'vanished',
      'gpu-warning cleared',
      'appeared',
    ]);
    const [state, ...rest] = watching.states();
    expect(rest).toEqual([]);
    expect(state?.info.id).toBe('gpu:1');
    expect(state?.present).toBe(true);
    expect(state?.history.statistics()).toMatchObject({ samples: 9, maxUsedBytes: 9 * GiB });
    expect(watching.notes()).toEqual(['AMD GPUs cannot be seen here.']);
  });

  it('drops samples, never alerts, when the consumer is slow, and counts them', async () => {
    const { clock, watching } = startWatch({
      devices: [fullBy([99, 1])],
      durationSeconds: 100,
      queueLimit: 10,
    });
    const iterator = watching[Symbol.asyncIterator]();
    const first = iterator.next();
    await clock.advance(200);
    expect((await first).value?.type).toBe('sample');
    const rest: WatchEvent[] = [];
    for (let got = await iterator.next(); !got.done; got = await iterator.next()) {
      rest.push(got.value);
    }
    expect(kinds(rest).filter((kind) => kind !== 'sample')).toEqual([
      'gpu-warning raised',
      'gpu-critical raised',
      'gpu-warning cleared',
      'gpu-critical cleared',
    ]);
    expect(kinds(rest).filter((kind) => kind === 'sample')).toHaveLength(10);
    expect(watching.droppedSamples).toBe(89);
  });

  it('names a bad option at once', () => {
    expect(() => watch({ intervalSeconds: -1 })).toThrow(Failure);
    expect(() => watch({ thresholds: { gpuWarningPercent: 0 } })).toThrow(Failure);
  });
});

describe('the end of a watch', () => {
  it('comes when the loop is left: nothing waits any more', async () => {
    const { clock, watching } = startWatch({ devices: [fakeDevice()] });
    const advancing = clock.advance(5);
    let seen = 0;
    for await (const event of watching) {
      expect(event.type).toBe('sample');
      if (++seen === 3) break;
    }
    await advancing;
    await watching.closed;
    expect(clock.waiting).toBe(0);
    expect((await watching[Symbol.asyncIterator]().next()).done).toBe(true);
  });

  it('comes without an error when the signal aborts, though a device hangs', async () => {
    const controller = new AbortController();
    const closings: string[] = [];
    const { clock, watching } = startWatch({
      devices: [fakeDevice(), fakeDevice({ id: 'hung', read: () => new Promise(() => {}) })],
      signal: controller.signal,
      deliver: [
        {
          deliver() {},
          async close(how) {
            closings.push(how);
          },
        },
      ],
    });
    const collecting = collect(watching);
    await clock.advance(2.5);
    controller.abort();
    const events = await collecting;
    await watching.closed;
    expect(events.filter(({ type }) => type === 'sample')).toHaveLength(3);
    // What was missed until then is told at the end.
    const missed = events.reduce(
      (sum, event) => sum + (event.type === 'late' ? event.missed : 0),
      0,
    );
    expect(missed).toBe(2);
    expect(closings).toEqual(['stop']);
    expect(clock.waiting).toBe(0);
  });

  it('comes before anything is read when the signal was aborted already', async () => {
    const { watching } = startWatch({
      devices: [
        fakeDevice({
          read() {
            throw new Error('It must not be read.');
          },
        }),
      ],
      signal: AbortSignal.abort(),
    });
    expect(await collect(watching)).toEqual([]);
    await watching.closed;
    expect(watching.states()).toEqual([]);
  });

  it('is bad only by a fault of ours, which the consumer gets', async () => {
    const { clock, watching } = startWatch({
      devices: [fakeDevice()],
      createDiagnosis: () =>
        fakeDiagnosis({
          forecast() {
            throw new RangeError('ours');
          },
        }),
    });
    const [outcome] = await Promise.allSettled([collect(watching), clock.advance(1)]);
    expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'ours' } });
    await expect(watching.closed).rejects.toThrow('ours');
    expect(clock.waiting).toBe(0);
  });

  it('waits for deliveries under way, within a limit', async () => {
    const { clock, watching } = startWatch({
      devices: [fullBy([99])],
      durationSeconds: 1,
      onAlert: () => new Promise(() => {}),
    });
    const closedAt = async (): Promise<number> => {
      await watching.closed;
      return clock.seconds();
    };
    const closing = closedAt();
    await clock.advance(60);
    expect(await closing).toBe(16);
    expect(clock.waiting).toBe(0);
  });
});

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
