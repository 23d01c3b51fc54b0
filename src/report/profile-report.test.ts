import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import type { WatchEvent } from '../watch/types.js';
import { buildProfileReport, type ProfileInput } from './profile-report.js';
import { fakeAlert, fakeLeak, fakeState, startEpochMs } from './state-for-tests.js';

function build(parts: Partial<ProfileInput> = {}) {
  return buildProfileReport({
    states: [fakeState()],
    alerts: [],
    events: [],
    startedEpochMs: startEpochMs,
    endedEpochMs: startEpochMs + 60_000,
    intervalSeconds: 0.1,
    interrupted: false,
    version: '1.2.3',
    loadLinePercent: 90,
    ...parts,
  });
}

const at = (atSeconds: number) => ({ atSeconds, epochMs: startEpochMs + atSeconds * 1000 });

describe('buildProfileReport', () => {
  it('holds the fields of a memory status report', () => {
    const report = build({
      states: [fakeState({ totalBytes: 12_348_030_976, used: [4_000_000_000, 8_589_934_592] })],
    });
    expect(report.timestamp).toBe('2026-01-15T10:31:00.000Z');
    expect(report.devices['gpu:0']?.currentUsage).toMatchObject({
      freeBytes: 3_758_096_384,
      totalBytes: 12_348_030_976,
      usedPercent: 69.6,
    });
    expect(report.devices['gpu:0']?.statistics).toMatchObject({
      meanUsedPercent: 51,
      maxUsedPercent: 69.6,
      minUsedPercent: 32.4,
      samplesCount: 2,
      peakBytes: 8_589_934_592,
      peakAtSeconds: 1,
    });
    expect(report.summary).toEqual({
      totalDevices: 1,
      totalBytes: 12_348_030_976,
      usedPercent: 69.6,
    });
  });

  it('says when and how it was made', () => {
    const report = build({ interrupted: true });
    expect(report).toMatchObject({
      schema: 2,
      tool: { name: 'plimsoll', version: '1.2.3' },
      startedAt: '2026-01-15T10:30:00.000Z',
      durationSeconds: 60,
      intervalSeconds: 0.1,
      interrupted: true,
    });
  });

  it('keeps how full apart from how busy', () => {
    const usage = build({ states: [fakeState({ compute: [1, 2, 87] })] }).devices['gpu:0']
      ?.currentUsage;
    expect(usage).toMatchObject({ usedPercent: 37.5, utilizationPercent: 87 });
  });

  it('counts down to the capacity, or to the cap of the allocator', () => {
    expect(build().devices['gpu:0']?.limit).toEqual({ bytes: 80 * GiB, of: 'capacity' });
    const capped = fakeState({
      allocatorLimit: 4 * GiB,
      allocated: [1, 2, 3],
      reserved: [4, 5, 6],
    });
    expect(build({ states: [capped] }).devices['gpu:0']?.limit).toEqual({
      bytes: 4 * GiB,
      of: 'allocator',
    });
  });

  it('never makes up a figure', () => {
    const report = build({ states: [fakeState({ totalBytes: 'unknown', used: [] })] });
    const device = report.devices['gpu:0'];
    expect(device?.currentUsage).toMatchObject({
      totalBytes: 'unknown',
      usedPercent: 'unknown',
      allocator: 'unknown',
    });
    expect(device?.loadLine).toEqual({ percent: 90, bytes: 'unknown' });
    expect(report.summary).toMatchObject({
      totalBytes: 'unknown',
      usedPercent: 'unknown',
    });
  });

  it('weighs the overall utilization by size', () => {
    const small = fakeState({ info: { id: 'gpu:0' }, totalBytes: 10 * GiB, used: [10 * GiB] });
    const large = fakeState({ info: { id: 'gpu:1' }, totalBytes: 90 * GiB, used: [0] });
    expect(build({ states: [small, large] }).summary.usedPercent).toBe(10);
  });

  it('lists the processes that grow by pid', () => {
    const processLeaks = new Map([[42, fakeLeak({ found: true, bytesPerSecond: 7 })]]);
    const device = build({ states: [fakeState({ processLeaks })] }).devices['gpu:0'];
    expect(device?.processLeaks).toEqual([
      { pid: 42, ...fakeLeak({ found: true, bytesPerSecond: 7 }) },
    ]);
  });

  it('dates alerts', () => {
    expect(build({ alerts: [fakeAlert()] }).alerts[0]?.at).toBe('2026-01-15T10:30:05.000Z');
  });

  it('folds late readings in a row into one event and counts the ticks they cost', () => {
    const device = fakeState().info;
    const other = fakeState({ info: { id: 'host' } }).info;
    const events: WatchEvent[] = [
      { type: 'late', device, missed: 2, ...at(1) },
      { type: 'late', device: other, missed: 5, ...at(1) },
      { type: 'late', device, missed: 3, ...at(2) },
      { type: 'vanished', device, reason: 'fell off the bus', ...at(3) },
      { type: 'appeared', device, ...at(4) },
      { type: 'late', device, missed: 1, ...at(5) },
    ];
    const report = build({ events });
    expect(report.events.map(({ type, deviceId, missed }) => [type, deviceId, missed])).toEqual([
      ['late', 'gpu:0', 5],
      ['late', 'host', 5],
      ['vanished', 'gpu:0', undefined],
      ['appeared', 'gpu:0', undefined],
      ['late', 'gpu:0', 1],
    ]);
    expect(report.devices['gpu:0']?.statistics.missedTicks).toBe(6);
  });

  it('survives JSON unchanged', () => {
    const report = build({
      states: [
        fakeState({ allocated: [1, Number.NaN, 3], allocatorLimit: 5, processes: 'unknown' }),
      ],
      alerts: [fakeAlert()],
    });
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
  });
});

describe('series of a report', () => {
  it('has at most 1000 points of whole bytes and keeps the peak', () => {
    const used = Array.from({ length: 5000 }, (_, index) => index + 0.25);
    used[2500] = 1e9;
    const series = build({ states: [fakeState({ used })] }).devices['gpu:0']?.series;
    expect(series?.seconds.length).toBeLessThanOrEqual(1000);
    expect(series?.usedBytes.max).toContain(1e9);
    expect(series?.usedBytes.mean.every(Number.isInteger)).toBe(true);
  });

  it('leaves out columns that nothing reported and marks gaps as unknown', () => {
    const series = build({ states: [fakeState({ allocated: [1, Number.NaN, 3] })] }).devices[
      'gpu:0'
    ]?.series;
    expect(series?.allocatedBytes?.mean).toEqual([1, 'unknown', 3]);
    expect(series).not.toHaveProperty('reservedBytes');
    expect(series).not.toHaveProperty('utilizationPercent');
  });
});
