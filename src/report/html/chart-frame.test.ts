import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import { buildProfileReport, type DeviceReport } from '../profile-report.js';
import { fakeState, type StateRecipe, startEpochMs } from '../state-for-tests.js';
import { bandPath, chartFrame, linePath, wideChart } from './chart-frame.js';

function device(recipe: StateRecipe): DeviceReport {
  const report = buildProfileReport({
    states: [fakeState(recipe)],
    alerts: [],
    events: [],
    startedEpochMs: startEpochMs,
    endedEpochMs: startEpochMs + 1000,
    intervalSeconds: 1,
    interrupted: false,
    version: '0',
    loadLinePercent: 90,
  });
  const made = report.devices['gpu:0'];
  if (!made) throw new Error('no device');
  return made;
}

const minute = Array.from({ length: 61 }, () => GiB);

describe('chartFrame', () => {
  it('puts the first sample at the left and, without forecast, the last at the right', () => {
    const frame = chartFrame(device({ used: minute }), wideChart);
    expect(frame.x(0)).toBe(frame.left);
    expect(frame.x(60)).toBe(frame.right);
    expect(frame.y(0)).toBe(frame.bottom);
  });

  it('has all of a near forecast inside', () => {
    const forecast = { etaSeconds: 20, lowSeconds: 15, highSeconds: 30 };
    const frame = chartFrame(device({ used: minute, forecast }), wideChart);
    expect(frame.x(60 + 30)).toBeLessThanOrEqual(frame.right);
    expect(frame.x(60)).toBeGreaterThan(frame.left + (frame.right - frame.left) / 2);
  });

  it('keeps only a little room for a forecast that is far off', () => {
    const forecast = { etaSeconds: 9000, lowSeconds: 5000, highSeconds: 'never' } as const;
    const frame = chartFrame(device({ used: minute, forecast }), wideChart);
    expect(frame.toSeconds).toBeCloseTo(69);
  });

  it('shows use above the capacity', () => {
    const frame = chartFrame(device({ totalBytes: 4 * GiB, used: [5 * GiB] }), wideChart);
    expect(frame.y(5 * GiB)).toBeGreaterThanOrEqual(frame.top);
  });

  it('has an axis even for a single sample, or none', () => {
    for (const used of [[GiB], []]) {
      const frame = chartFrame(device({ used }), wideChart);
      expect(frame.toSeconds).toBeGreaterThan(frame.fromSeconds);
      expect(Number.isFinite(frame.x(0))).toBe(true);
    }
  });
});

describe('paths', () => {
  const frame = chartFrame(device({ used: minute }), wideChart);

  it('leaves a gap where a value is unknown', () => {
    const path = linePath(frame, [0, 1, 2, 3], [1, 2, 'unknown', 3]);
    expect(path.match(/M/g)).toHaveLength(2);
    expect(path.match(/L/g)).toHaveLength(1);
  });

  it('closes a band around each run of known values', () => {
    const path = bandPath(frame, [0, 1, 2, 3, 4], [0, 0, 'unknown', 0, 0], [1, 1, 1, 1, 1]);
    expect(path.match(/Z/g)).toHaveLength(2);
  });
});
