import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeviceInfo } from '../../device/types.js';
import { Failure } from '../../failure.js';
import { createVirtualClock } from '../../time/clock.js';
import { GiB, MiB } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import { fakeDevice, memory, noForecast, noLeak } from '../fake-device-for-tests.js';
import { type Alert, alertKinds, type Leak, type Risk, risks } from '../types.js';
import {
  defaultThresholds,
  resolveThresholds,
  type ThresholdSettings,
} from './alert-thresholds.js';
import { type AlertInput, createAlerts, type Instant } from './alerts.js';

const aLeak: Leak = {
  ...noLeak,
  found: true,
  bytesPerSecond: 2 * MiB,
  grownBytes: 100 * MiB,
  confidence: 0.9,
};

interface Situation {
  percent?: Known<number>;
  risk?: Known<Risk>;
  leak?: boolean;
  leakingPids?: readonly number[];
}

function input(situation: Situation, info: DeviceInfo = fakeDevice().info): AlertInput {
  const percent = situation.percent ?? 10;
  const used = percent === 'unknown' ? percent : Math.round((percent / 100) * 10 * GiB);
  return {
    info,
    latest: { ...memory(used), device: info, atSeconds: 0, epochMs: 0 },
    processes: [{ pid: 7, name: 'python', usedBytes: GiB }],
    leak: situation.leak ? aLeak : noLeak,
    processLeaks: new Map((situation.leakingPids ?? []).map((pid) => [pid, aLeak])),
    forecast: {
      ...noForecast,
      risk: situation.risk ?? 'none',
      probability: { within15s: 0.2, within60s: 0.84, within5min: 0.97 },
      etaSeconds: 42,
      lowSeconds: 30,
      highSeconds: 55,
      recommendations: ['Lower the batch size.'],
    },
  };
}

/** Feeds situations one a second and writes down what is told: `kind state severity pid@seconds`. */
function alertsOf(
  situations: readonly Situation[],
  settings: ThresholdSettings = {},
  info?: DeviceInfo,
): string[] {
  const alerts = createAlerts(resolveThresholds(settings));
  return situations.flatMap((situation, atSeconds) =>
    alerts.update(input(situation, info), second(atSeconds)).map((alert) => line(alert)),
  );
}

function line(alert: Alert): string {
  const pid = alert.pid === undefined ? '' : ` ${alert.pid}`;
  return `${alert.kind} ${alert.state} ${alert.severity}${pid}@${alert.atSeconds}`;
}

const second = (atSeconds: number): Instant => ({ atSeconds, epochMs: atSeconds * 1000 });
const repeat = (situation: Situation, count: number): Situation[] =>
  Array.from({ length: count }, () => situation);
const host = fakeDevice({ id: 'host', kind: 'host', name: 'Memory', provenance: 'measured' }).info;

describe('the six kinds of alert', () => {
  it('has its own lines for the host and for GPUs, each raised once', () => {
    const climb = [70, 75, 79, 80, 89, 90, 94, 95, 99].map((percent) => ({ percent }));
    expect(alertsOf(climb, {}, host)).toEqual([
      'memory-warning raised warning@1',
      'memory-critical raised critical@5',
    ]);
    expect(alertsOf(climb)).toEqual([
      'gpu-warning raised warning@3',
      'gpu-critical raised critical@7',
    ]);
  });

  it('is silent about growth of a host, unless it is asked for', () => {
    const course: Situation[] = [{ risk: 'critical', leak: true, leakingPids: [7] }];
    expect(alertsOf(course, {}, host)).toEqual([]);
    expect(alertsOf(course, { hostGrowth: true }, host)).toEqual([
      'out-of-memory-risk raised critical@0',
      'leak raised warning@0',
      'leak raised warning 7@0',
    ]);
  });

  it('clears a use alert only below its line minus the margin', () => {
    const falls = [96, 94, 90.1, 89.9, 80, 76, 75, 74.9].map((percent) => ({ percent }));
    expect(alertsOf(falls)).toEqual([
      'gpu-warning raised warning@0',
      'gpu-critical raised critical@0',
      'gpu-critical cleared critical@3',
      'gpu-warning cleared warning@7',
    ]);
    expect(alertsOf(falls, { hysteresisPercent: 0, enabled: { 'gpu-warning': false } })).toEqual([
      'gpu-critical raised critical@0',
      'gpu-critical cleared critical@1',
    ]);
  });

  it('warns of a risk, again when it becomes critical, and clears it after it stayed away', () => {
    const course: Situation[] = [
      { risk: 'medium' },
      { risk: 'high' },
      { risk: 'critical' },
      { risk: 'high' },
      { risk: 'critical' },
      ...repeat({ risk: 'low' }, 5),
      { risk: 'critical' },
      ...repeat({ risk: 'unknown' }, 12),
    ];
    expect(alertsOf(course)).toEqual([
      'out-of-memory-risk raised warning@1',
      'out-of-memory-risk raised critical@2',
      'out-of-memory-risk cleared critical@21',
    ]);
  });

  it('warns of a leak in the device and in each process, and of its end', () => {
    const course: Situation[] = [
      { leak: true },
      { leak: true, leakingPids: [7] },
      { leakingPids: [7, 8] },
      ...repeat({}, 12),
    ];
    expect(alertsOf(course)).toEqual([
      'leak raised warning@0',
      'leak raised warning 7@1',
      'leak raised warning 8@2',
      'leak cleared warning@12',
      'leak cleared warning 7@13',
      'leak cleared warning 8@13',
    ]);
  });

  it('lets a leak that is too slow, too small or too unsure pass', () => {
    const leaking: Situation[] = [{ leak: true }];
    expect(alertsOf(leaking)).toHaveLength(1);
    expect(alertsOf(leaking, { leakBytesPerSecond: 3 * MiB })).toEqual([]);
    expect(alertsOf(leaking, { leakGrownBytes: GiB })).toEqual([]);
    expect(alertsOf(leaking, { leakConfidence: 0.95 })).toEqual([]);
  });

  it('keeps quiet where it is turned off', () => {
    const all: Situation[] = [{ percent: 99, risk: 'critical', leak: true, leakingPids: [7] }];
    expect(alertsOf(all)).toHaveLength(5);
    const off = Object.fromEntries(alertKinds.map((kind) => [kind, false]));
    expect(alertsOf(all, { enabled: off })).toEqual([]);
  });

  it('neither raises nor clears by a use that is unknown', () => {
    expect(alertsOf([{ percent: 99 }, { percent: 'unknown' }, { percent: 99 }])).toHaveLength(2);
    expect(alertsOf([{ percent: 'unknown' }])).toEqual([]);
  });
});

describe('what an alert says', () => {
  it('is a sentence with the facts, and says simulated where it is', () => {
    const alerts = createAlerts(defaultThresholds);
    const at = { atSeconds: 3, epochMs: 5000 };
    const situation: Situation = { percent: 96, risk: 'high', leakingPids: [7] };
    const [warning, , risk, leak] = alerts.update(input(situation), at);
    expect(warning).toMatchObject({ ...at, deviceId: 'gpu:0', provenance: 'simulated' });
    expect(warning?.message).toBe(
      'gpu:0 (Fake GPU, simulated) uses 96.0 % of its memory, 9.6 GiB of 10.0 GiB; the warning line is 80 %.',
    );
    expect(risk?.message).toContain('run out of memory in 42 s (between 30 s and 55 s)');
    expect(risk?.message).toContain('84 % likely within a minute if nothing changes');
    expect(risk?.recommendations).toEqual(['Lower the batch size.']);
    expect(leak?.message).toBe(
      'python (process 7) on gpu:0 (Fake GPU, simulated) leaks 2.0 MiB a second, 100 MiB so far.',
    );
    const [measured] = createAlerts(defaultThresholds).update(input({ percent: 80 }, host), at);
    expect(measured?.message).toContain('host (Memory) uses 80.0 %');
    expect(measured?.provenance).toBe('measured');
  });
});

describe('a device that is gone', () => {
  it('takes its alerts with it, and does not repeat them when it is soon back', () => {
    const alerts = createAlerts(defaultThresholds);
    const full = input({ percent: 85 });
    alerts.update(full, second(0));
    expect(alerts.active('gpu:0').map((alert) => alert.kind)).toEqual(['gpu-warning']);
    expect(alerts.active('gpu:1')).toEqual([]);
    expect(alerts.forget(full, second(10)).map(line)).toEqual(['gpu-warning cleared warning@10']);
    expect(alerts.active('gpu:0')).toEqual([]);
    expect(alerts.forget(full, second(11))).toEqual([]);
    expect(alerts.update(full, second(20))).toEqual([]);
    expect(alerts.update(full, second(60)).map(line)).toEqual(['gpu-warning raised warning@60']);
  });
});

describe('whatever happens', () => {
  /** All that may come after what stands. */
  const steps = [
    'none -> raised warning',
    'none -> raised critical',
    'warning -> raised critical',
    'warning -> cleared warning',
    'critical -> cleared critical',
  ];
  const situations = fc.array(
    fc.record({
      wait: fc.double({ min: 0, max: 40, noNaN: true }),
      percent: fc.oneof(
        fc.integer({ min: 0, max: 100 }),
        fc.constantFrom(79, 80, 95),
        fc.constant('unknown' as const),
      ),
      risk: fc.constantFrom(...risks, 'unknown' as const),
      leak: fc.boolean(),
      leakingPids: fc.subarray([7, 8]),
      gone: fc.boolean(),
    }),
    { maxLength: 200 },
  );

  it('never raises the same twice without a clearing or an escalation, nor past the rate', async () => {
    await fc.assert(
      fc.asyncProperty(
        situations,
        fc.integer({ min: 0, max: 90 }),
        async (course, repeatSeconds) => {
          const clock = createVirtualClock();
          const alerts = createAlerts(resolveThresholds({ repeatSeconds }));
          const standing = new Map<string, Alert>();
          const raised = new Map<string, number>();
          for (const { wait, gone, ...situation } of course) {
            await clock.advance(wait);
            const at = { atSeconds: clock.seconds(), epochMs: clock.epochMs() };
            const state = input(situation);
            const news = gone && wait > 30 ? alerts.forget(state, at) : alerts.update(state, at);
            for (const alert of news) {
              const key = `${alert.kind} ${alert.pid}`;
              const before = standing.get(key)?.severity ?? 'none';
              expect(steps).toContain(`${before} -> ${alert.state} ${alert.severity}`);
              standing.delete(key);
              if (alert.state === 'cleared') continue;
              standing.set(key, alert);
              const last = raised.get(`${key} ${alert.severity}`) ?? Number.NEGATIVE_INFINITY;
              expect(at.atSeconds - last).toBeGreaterThanOrEqual(repeatSeconds);
              raised.set(`${key} ${alert.severity}`, at.atSeconds);
            }
            const active = alerts.active('gpu:0').map((alert) => `${alert.kind} ${alert.pid}`);
            expect(active.toSorted()).toEqual([...standing.keys()].toSorted());
          }
        },
      ),
    );
  });

  it('tells at most once a minute of a use that jumps up and down every second', () => {
    const flapping = Array.from({ length: 600 }, (_, tick) => ({
      percent: tick % 2 ? 10 : 85,
    }));
    const raised = alertsOf(flapping).filter((text) => text.includes('raised'));
    expect(raised).toHaveLength(10);
  });
});

describe('the thresholds', () => {
  it('are those of the six kinds by default, and each can be set', () => {
    expect(resolveThresholds()).toEqual(defaultThresholds);
    expect(defaultThresholds).toMatchObject({
      memoryWarningPercent: 75,
      memoryCriticalPercent: 90,
      gpuWarningPercent: 80,
      gpuCriticalPercent: 95,
      repeatSeconds: 60,
    });
    const set = resolveThresholds({ gpuWarningPercent: 50, enabled: { leak: false } });
    expect(set).toEqual({
      ...defaultThresholds,
      gpuWarningPercent: 50,
      enabled: { ...defaultThresholds.enabled, leak: false },
    });
    expect(alertsOf([{ percent: 51 }], { gpuWarningPercent: 50 })).toHaveLength(1);
    expect(alertsOf([{ risk: 'medium' }], { riskWarning: 'medium' })).toHaveLength(1);
  });

  it('name the one that is bad', () => {
    const bad: ThresholdSettings[] = [
      { gpuWarningPercent: 0 },
      { memoryCriticalPercent: 101 },
      { hysteresisPercent: -1 },
      { repeatSeconds: Number.NaN },
      { leakConfidence: 2 },
      { riskWarning: 'none' },
    ];
    for (const settings of bad) {
      const [name = ''] = Object.keys(settings);
      expect(() => resolveThresholds(settings)).toThrow(Failure);
      expect(() => resolveThresholds(settings)).toThrow(name);
    }
  });
});
