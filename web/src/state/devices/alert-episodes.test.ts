import { describe, expect, it } from 'vitest';
import type { Alert } from '../../api/types.js';
import { alertEpisodes } from './alert-episodes.js';

function alert(epochMs: number, parts: Partial<Alert> = {}): Alert {
  return {
    kind: 'leak',
    state: 'raised',
    severity: 'warning',
    deviceId: 'gpu:0',
    atSeconds: 0,
    epochMs,
    message: '',
    recommendations: [],
    provenance: 'measured',
    ...parts,
  };
}

describe('what was warned of', () => {
  it('is one line from its beginning to its end, the latest first', () => {
    const found = alertEpisodes([
      alert(1, { pid: 7 }),
      alert(2),
      alert(3, { pid: 7, state: 'cleared' }),
      alert(4, { deviceId: 'gpu:1' }),
    ]);
    expect(found.map(({ alert: { epochMs }, clearedMs }) => [epochMs, clearedMs])).toEqual([
      [4, undefined],
      [2, undefined],
      [1, 3],
    ]);
  });

  it('keeps the worst of a warning that grew, and leaves out ends without a beginning', () => {
    const critical = alert(2, { severity: 'critical' });
    const found = alertEpisodes([alert(0, { state: 'cleared' }), alert(1), critical, alert(3)]);
    expect(found).toEqual([{ alert: critical, clearedMs: undefined }]);
  });
});
