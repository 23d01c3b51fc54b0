import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import type { DeviceState } from '../../watch/types.js';
import { buildProfileReport } from '../profile-report.js';
import { fakeAlert, fakeState, startEpochMs } from '../state-for-tests.js';
import { alertBlock, type DeviceRow, devicesTable, profileSummary, sampleLine } from './lines.js';
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
