import { describe, expect, it } from 'vitest';
import type { Alert, DaemonEvent } from '../../api/types.js';
import { madeDevice, madeJob, madeWaiting } from '../made-for-tests.js';
import {
  emptyBoard,
  jobsKept,
  mergedAlerts,
  withEvents,
  withHistory,
  withMoreJobs,
  withSnapshot,
  withWindow,
} from './board.js';

const counts = {
  waiting: 1,
  running: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  refused: 0,
  expired: 0,
};
const start = withSnapshot(emptyBoard(60), {
  devices: [madeDevice({})],
  jobs: [madeJob({ id: '1' })],
  counts,
});

const alert: Alert = {
  kind: 'leak',
  state: 'raised',
  severity: 'critical',
  deviceId: 'gpu:0',
  atSeconds: 1,
  epochMs: 5000,
  message: 'It leaks.',
  recommendations: [],
  provenance: 'measured',
};

function jobEvent(id: number, job: Parameters<typeof madeJob>[0]): DaemonEvent {
  return { type: 'job', id, job: madeJob(job), what: job.state ?? 'waiting' };
}

describe('the board', () => {
  it('is not loaded before the first answers, even when there are no jobs', () => {
    expect(emptyBoard(60).loaded).toBe(false);
    expect(start.loaded).toBe(true);
  });

  it('moves a job and its counts, and remembers where to resume', () => {
    const next = withEvents(start, [
      jobEvent(7, { id: '1', state: 'running' }),
      jobEvent(8, { id: '2' }),
    ]);
    expect(next.jobs.get('1')?.state).toBe('running');
    expect(next.counts).toMatchObject({ waiting: 1, running: 1 });
    expect(next.lastEventId).toBe(8);
    expect(start.jobs.get('1')?.state).toBe('waiting');
  });

  it('takes the last of many readings, and every reading into the history', () => {
    const next = withEvents(
      start,
      [10, 50, 20].map((usedBytes, index) => ({
        type: 'devices',
        epochMs: 1000 + index,
        devices: [madeDevice({ usedBytes })],
      })),
    );
    expect(next.devices[0]?.usedBytes).toBe(20);
    expect(next.histories.get('gpu:0')).toMatchObject({ max: [50], min: [10] });
    expect(next.jobs).toBe(start.jobs);
  });

  it('tells waiting jobs their place, and leaves those alone that started meanwhile', () => {
    const waiting = madeWaiting({ position: 3 });
    const running = withEvents(start, [jobEvent(1, { id: '2', state: 'running' })]);
    const next = withEvents(running, [
      {
        type: 'queue',
        waiting: [
          { id: '1', ...waiting },
          { id: '2', ...waiting },
        ],
        counts,
      },
    ]);
    expect(next.jobs.get('1')?.waiting).toEqual(waiting);
    expect(next.jobs.get('2')?.waiting).toBeNull();
    expect(next.counts).toBe(counts);
  });

  it('keeps an alert once, however it came', () => {
    const next = withEvents(start, [
      { type: 'alert', alert },
      { type: 'alert', alert },
    ]);
    expect(next.alerts).toEqual([alert]);
    const later = { ...alert, epochMs: 9000 };
    expect(mergedAlerts([later], [alert])).toEqual([alert, later]);
    expect(mergedAlerts(next.alerts, [alert])).toBe(next.alerts);
  });

  it('lets nothing that was fetched late overwrite what an event told', () => {
    const next = withEvents(start, [jobEvent(2, { id: '5', state: 'running' })]);
    const merged = withMoreJobs(next, [madeJob({ id: '5' }), madeJob({ id: '6' })]);
    expect([merged.jobs.get('5')?.state, merged.jobs.size]).toEqual(['running', 3]);
    expect(withMoreJobs(merged, [madeJob({ id: '6' })])).toBe(merged);
  });

  it('puts what was read meanwhile behind the history that was fetched', () => {
    const live = withEvents(start, [
      { type: 'devices', epochMs: 60_000, devices: [madeDevice({ usedBytes: 9 })] },
    ]);
    const fetched = { id: 'gpu:0', epochMs: [58_000], usedMax: [5], usedMin: [4], alerts: [alert] };
    const next = withHistory(live, fetched);
    expect(next.histories.get('gpu:0')?.max.filter((value) => value !== null)).toEqual([5, 9]);
    expect(next.alerts).toEqual([alert]);
  });

  it('forgets its histories when another stretch of time is shown', () => {
    const live = withEvents(start, [{ type: 'devices', epochMs: 1, devices: [madeDevice({})] }]);
    expect(withWindow(live, 60)).toBe(live);
    expect(withWindow(live, 3600).histories.size).toBe(0);
  });

  it('forgets the oldest that ended when there are too many, and none that runs or waits', () => {
    const events = Array.from({ length: jobsKept + 10 }, (_, index) =>
      jobEvent(index, { id: String(index + 1), state: index < 5 ? 'running' : 'succeeded' }),
    );
    const { jobs } = withEvents(start, events);
    expect(jobs.size).toBeLessThan(jobsKept);
    expect([jobs.has('1'), jobs.has('6'), jobs.has(String(jobsKept))]).toEqual([true, false, true]);
  });

  it('starts anew with what a server that was restarted tells', () => {
    const next = withSnapshot(start, { devices: [], jobs: [madeJob({ id: '9' })], counts });
    expect([...next.jobs.keys()]).toEqual(['9']);
  });
});
