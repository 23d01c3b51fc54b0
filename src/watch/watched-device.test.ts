import { describe, expect, it } from 'vitest';
import type { MemoryReading } from '../device/device.js';
import { resolveThresholds } from './alerts/alert-thresholds.js';
import { createAlerts } from './alerts/alerts.js';
import type { Diagnosis } from './diagnosis/diagnose.js';
import { fakeDevice, fakeDiagnosis, memory, noForecast, noLeak } from './fake-device-for-tests.js';
import type { MemoryPoint, Sample } from './types.js';
import { memoryPointOf, WatchedDevice } from './watched-device.js';

const { info } = fakeDevice();
const sample = (atSeconds: number, reading: MemoryReading = memory(1)): Sample => ({
  ...reading,
  device: info,
  atSeconds,
  epochMs: 0,
});

function watched(parts: Partial<Diagnosis>): WatchedDevice {
  return new WatchedDevice(sample(0), {
    alerts: createAlerts(resolveThresholds()),
    createDiagnosis: () => fakeDiagnosis(parts),
  });
}

describe('what the diagnosis is fed', () => {
  it('is what the allocator reports where one does, else the use of the device', () => {
    expect(memoryPointOf(sample(3, memory(5, 10)))).toEqual({
      seconds: 3,
      limitBytes: 10,
      heldBytes: 5,
    });
    const allocator = { allocatedBytes: 2, reservedBytes: 4, limitBytes: 8 };
    expect(memoryPointOf(sample(3, { ...memory(5, 10), allocator }))).toEqual({
      seconds: 3,
      limitBytes: 8,
      heldBytes: 4,
      liveBytes: 2,
    });
  });

  it('is nothing while the figures are unknown', () => {
    const fed: MemoryPoint[] = [];
    const device = watched({ add: (point) => fed.push(point) });
    device.take(sample(1, memory('unknown')));
    device.take(sample(2, { ...memory(1), totalBytes: 'unknown' }));
    device.takeProcesses(2, 'unknown');
    device.take(sample(3));
    expect(fed.map(({ seconds }) => seconds)).toEqual([0, 3]);
    expect(device.latest.atSeconds).toBe(3);
    expect(device.history.statistics().samples).toBe(4);
  });
});

describe('the state of a watched device', () => {
  it('is concluded when asked for, once for each new forecast', () => {
    let concluded = 0;
    let forecast = noForecast;
    const device = watched({ forecast: () => forecast, cause: () => (concluded++, 'none') });
    for (let tick = 1; tick <= 100; tick++) {
      if (tick % 10 === 0) forecast = { ...noForecast };
      device.take(sample(tick / 10));
      void device.leak;
      if (tick > 50) void device.cause;
    }
    expect(concluded).toBe(6);
  });

  it('passes on every process that grows, known to leak or not', () => {
    const leaks = new Map([
      [1, { ...noLeak, found: true }],
      [3, { ...noLeak, found: 'unknown' as const, bytesPerSecond: 5 }],
    ]);
    const device = watched({ processLeaks: () => leaks });
    expect([...device.processLeaks]).toEqual([...leaks]);
  });

  it('keeps its history over an absence, but concludes from the time after it alone', () => {
    const fed: number[][] = [];
    const device = new WatchedDevice(sample(0), {
      alerts: createAlerts(resolveThresholds()),
      createDiagnosis: () => {
        const points: number[] = [];
        fed.push(points);
        return fakeDiagnosis({ add: ({ seconds }) => points.push(seconds) });
      },
    });
    device.takeProcesses(0, []);
    device.vanish();
    expect(device.present).toBe(false);
    device.comeBack({ ...info, id: 'gpu:3' });
    expect([device.present, device.info.id, device.processes]).toEqual([true, 'gpu:3', 'unknown']);
    device.take(sample(9));
    expect(fed).toEqual([[0], [9]]);
    expect([...device.history.series('used').seconds]).toEqual([0, 9]);
  });
});
