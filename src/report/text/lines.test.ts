import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import type { DeviceState } from '../../watch/types.js';
import { buildProfileReport } from '../profile-report.js';
import { fakeAlert, fakeState, startEpochMs } from '../state-for-tests.js';
import {
  alertBlock,
  type DeviceRow,
  devicesTable,
  profileSummary,
  type ReplayResult,
  type ReplayTrace,
  replayText,
  sampleLine,
} from './lines.js';
import { textWidth } from './text-width.js';

const style = { colour: false, unicode: true };

describe('sampleLine', () => {
  it('has the time, the figures, where they come from and the outlook', () => {
    const state = fakeState({
      compute: [1, 2, 87],
      forecast: { risk: 'high', etaSeconds: 45, lowSeconds: 30, highSeconds: 70 },
    });
    expect(sampleLine(state)).toBe(
      '2026-01-15T10:30:02.000Z gpu:0 37.5 % (30.0 of 80.0 GiB) measured, compute 87 %, rising, full in 45 s (30 to 70 s), risk high, estimated',
    );
  });

  it('is one line whatever the device is called', () => {
    expect(sampleLine(fakeState({ info: { id: 'a\nb\u001B[1m' } }))).not.toMatch(/\p{Cc}/u);
  });
});

describe('alerts', () => {
  it('have a block with all that helps to act', () => {
    const alert = fakeAlert({
      kind: 'out-of-memory-risk',
      severity: 'critical',
      message: 'gpu:0 will be full soon.',
      recommendations: ['Prepare to release the cache.'],
    });
    const state = fakeState({
      used: [70 * GiB],
      forecast: {
        risk: 'high',
        etaSeconds: 45.2,
        lowSeconds: 30,
        highSeconds: 70,
        confidence: 0.82,
        recommendations: ['Prepare to release the cache.', 'Lower the batch size.'],
      },
    });
    expect(alertBlock(alert, state)).toBe(
      [
        '[CRITICAL] Out-of-memory warning: gpu:0 NVIDIA A100',
        '   gpu:0 will be full soon.',
        '   Risk level: high',
        '   Current usage: 87.5 % (70.0 of 80.0 GiB), measured',
        '   Predicted out of memory: in 45 s (30 to 70 s), estimated',
        '   Confidence: 0.82',
        '   Recommendation: Prepare to release the cache.',
        '   Recommendation: Lower the batch size.',
      ].join('\n'),
    );
  });
});

function row(state: DeviceState): DeviceRow {
  return { ...state.info, ...state.latest, processes: state.processes };
}

describe('devicesTable', () => {
  it('aligns devices and puts their processes under them', () => {
    const gpu = fakeState({ processes: [{ pid: 42, name: 'python', usedBytes: 3 * MiB }] });
    const host = fakeState({ info: { id: 'host', name: 'Host memory', source: 'host' } });
    const table = devicesTable([row(gpu), row(host)], { columns: 100, loadLinePercent: 90, style });
    const lines = table.split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(
      /^gpu:0 +NVIDIA A100 +█+.*┃·+ +37\.5 % +30\.0 of 80\.0 GiB +nvml, measured$/,
    );
    expect(lines[1]).toMatch(/^ +42 +3\.0 MiB +python$/);
    expect(lines[2]?.indexOf('┃')).toBe(lines[0]?.indexOf('┃'));
  });

  it('says how many processes it left out, and which it may not see', () => {
    const many = Array.from({ length: 9 }, (_, pid) => ({ pid, name: 'p', usedBytes: 1 }));
    const table = devicesTable(
      [row(fakeState({ processes: many })), row(fakeState({ processes: 'unknown' }))],
      { columns: 80, loadLinePercent: 90, style, notes: ['nvml: no driver'] },
    );
    expect(table).toContain('and 4 more processes');
    expect(table).toContain('processes unknown');
    expect(table).toContain('note: nvml: no driver');
  });

  it('is never wider than the terminal', () => {
    const name = 'a very long name 模型 '.repeat(9);
    const state = fakeState({
      info: { id: name, name },
      processes: [{ pid: 1, name, usedBytes: 1 }],
    });
    for (let columns = 1; columns < 140; columns++) {
      const table = devicesTable([row(state)], { columns, loadLinePercent: 90, style });
      for (const line of table.split('\n')) expect(textWidth(line)).toBeLessThanOrEqual(columns);
    }
  });
});

describe('profileSummary', () => {
  it('says what was seen and where it comes from', () => {
    const report = buildProfileReport({
      states: [fakeState({ forecast: { recommendations: ['Lower the batch size.'] } })],
      alerts: [fakeAlert(), fakeAlert({ state: 'cleared' })],
      events: [],
      startedEpochMs: startEpochMs,
      endedEpochMs: startEpochMs + 30_000,
      intervalSeconds: 0.1,
      interrupted: true,
      version: '0',
      loadLinePercent: 90,
    });
    expect(profileSummary(report).split('\n')).toEqual([
      '3 samples of 1 device in 30 s, interrupted, 1 alert.',
      '',
      'gpu:0  NVIDIA A100 (measured)',
      '  At the end 30.0 of 80.0 GiB were used; the peak was 30.0 GiB after 2.0 s, 42.0 GiB below the load line. [measured]',
      '  No out-of-memory expected. Memory has been steady. [estimated]',
      '  To do: Lower the batch size.',
    ]);
  });
});

const options = {
  columns: 80,
  rows: 10,
  loadLinePercent: 90,
  style: { colour: false, unicode: true },
};

const seconds = Array.from({ length: 61 }, (_, index) => index);
const rising: ReplayTrace = {
  capacityBytes: 4 * GiB,
  seconds,
  usedBytes: seconds.map((second) => (second / 60) * 4 * GiB),
};
const alarmed: ReplayResult = {
  alarms: [
    { atSeconds: 15, risk: 'medium', etaSeconds: 90, lowSeconds: 70, highSeconds: 110 },
    { atSeconds: 30, risk: 'high', etaSeconds: 31, lowSeconds: 25, highSeconds: 40 },
  ],
  leak: { found: true, bytesPerSecond: 68 * MiB },
  cause: 'leak',
};
const calm: ReplayResult = { alarms: [], leak: { found: false, bytesPerSecond: 0 }, cause: 'none' };

describe('replayText', () => {
  it('draws the series under the capacity and the load line', () => {
    const lines = replayText(calm, rising, options).split('\n');
    expect(lines.find((line) => line.startsWith('   4.0 GiB'))).toMatch(/│─+[⠀-⣿]+$/);
    expect(lines.find((line) => line.includes('load line'))).toContain('╌');
    expect(lines.some((line) => /└0 +.*60 s|30 s/.test(line))).toBe(true);
  });

  it('marks each alarm under the instant it was raised at', () => {
    const lines = replayText(alarmed, rising, options).split('\n');
    const marks = lines.find((line) => line.includes('alarms')) ?? '';
    const plot = 80 - 12;
    expect(marks.indexOf('1')).toBe(12 + Math.floor((15 / 60) * plot));
    expect(marks.indexOf('2')).toBe(12 + Math.floor((30 / 60) * plot));
    expect(lines).toContain('  2. after 30 s: risk high, full in 31 s (25 to 40 s), estimated');
  });

  it('gives the verdict in words', () => {
    const text = replayText(alarmed, rising, options);
    expect(text).toContain('Warned 30 s before the recording ends.');
    expect(text).toContain('It leaks 68.0 MiB a second.');
    expect(text).toContain('Likely cause: a leak');
    const quiet = replayText(calm, rising, options);
    expect(quiet).toContain('not expected within a minute');
    expect(quiet).toContain('No leak was found.');
    expect(quiet).not.toContain('cause');
  });

  it('draws live bytes as a second line', () => {
    const allocatedBytes = rising.usedBytes.map(() => GiB);
    expect(replayText(calm, { ...rising, allocatedBytes }, options)).toContain('allocated');
  });

  it('is never wider than the terminal, whatever was recorded', () => {
    const value = fc.oneof(fc.constant('unknown' as const), fc.nat());
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 160 }),
        fc.array(fc.tuple(fc.nat(1000), value), { maxLength: 50 }),
        fc.array(fc.nat(1000), { maxLength: 12 }),
        (columns, rows, times) => {
          const sorted = rows.toSorted((one, other) => one[0] - other[0]);
          const trace: ReplayTrace = {
            capacityBytes: 1000,
            seconds: sorted.map(([second]) => second),
            usedBytes: sorted.map(([, used]) => used),
          };
          const alarms = times
            .toSorted((one, other) => one - other)
            .map((atSeconds) => ({
              atSeconds,
              risk: 'high' as const,
              etaSeconds: 3,
              lowSeconds: 'unknown' as const,
              highSeconds: 'never' as const,
            }));
          const text = replayText({ ...calm, alarms }, trace, { ...options, columns });
          for (const line of text.split('\n')) expect(textWidth(line)).toBeLessThanOrEqual(columns);
          expect(text).not.toMatch(/NaN|undefined|Infinity/);
        },
      ),
    );
  });
});
