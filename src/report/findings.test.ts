import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../units/bytes.js';
import { deviceFindings } from './findings.js';
import { buildProfileReport } from './profile-report.js';
import { fakeLeak, fakeState, type StateRecipe, startEpochMs } from './state-for-tests.js';

function findings(recipe: StateRecipe) {
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
  return Object.values(report.devices).flatMap(deviceFindings);
}

describe('deviceFindings', () => {
  it('says the growth, the time left and its bounds, and that it is estimated', () => {
    const forecast = {
      risk: 'high',
      etaSeconds: 45,
      lowSeconds: 30,
      highSeconds: 70,
      bytesPerSecond: 12.3 * MiB,
      reason: 'Memory grows by 12.3 MiB a second, seen for 30 s; 554 MiB are left.',
    } as const;
    expect(findings({ forecast })).toContainEqual({
      level: 'warning',
      text: 'The limit is reached in 45 s (30 to 70 s). Memory grows by 12.3 MiB a second, seen for 30 s; 554 MiB are left. Risk high, confidence 80 %.',
      provenance: 'estimated',
    });
  });

  it('says how far the peak was from the load line', () => {
    expect(findings({ used: [10 * GiB, 60 * GiB, 20 * GiB] })[0]).toEqual({
      level: 'fine',
      text: 'At the end 20.0 of 80.0 GiB were used; the peak was 60.0 GiB after 1.0 s, 12.0 GiB below the load line.',
      provenance: 'measured',
    });
    expect(findings({ used: [75 * GiB] })[0]).toMatchObject({
      level: 'warning',
      text: expect.stringContaining('3.0 GiB above the load line'),
    });
  });

  it('calls figures of a simulated device simulated', () => {
    const all = findings({ info: { provenance: 'simulated', source: 'simulated' } });
    expect(all.map(({ provenance }) => provenance)).toEqual(['simulated', 'estimated']);
  });

  it('names the process that grows', () => {
    const texts = findings({
      processes: [{ pid: 7, name: 'python', usedBytes: 1 }],
      processLeaks: new Map([[7, fakeLeak({ found: true, bytesPerSecond: MiB })]]),
    }).map(({ text }) => text);
    expect(texts).toContain('Process 7 (python) grows by 1.0 MiB a second (confidence 90 %).');
  });

  it('says a leak once, not again as its own cause', () => {
    const leak = { found: true, bytesPerSecond: MiB, grownBytes: GiB, sinceSeconds: 3 } as const;
    const texts = findings({ leak, cause: 'leak' }).map(({ text }) => text);
    expect(texts.filter((text) => /\bleak/i.test(text))).toHaveLength(1);
    expect(findings({ cause: 'neighbour' }).at(-1)?.text).toMatch(/^Likely cause: a neighbour/);
  });

  it('says that a device is gone', () => {
    expect(findings({ present: false })[0]?.text).toContain('gone at the end');
  });
});
