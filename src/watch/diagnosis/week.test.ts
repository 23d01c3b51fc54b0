// @module-tag rest
import { describe, expect, it } from 'vitest';
import { heldBytes } from '../fake-device-for-tests.js';
import { createDiagnosis } from './diagnose.js';
import { GiB } from './series-for-tests.js';

const day = 86_400;
const MiB = 1024 ** 2;

describe('what is concluded in a week at 1 Hz', () => {
  it('takes no more memory as the days go by, and raises no alarm', () => {
    const diagnosis = createDiagnosis();
    const held: number[] = [];
    let alarms = 0;
    for (let second = 0; second < 7 * day; second++) {
      // A sawtooth over a slow wave, far below the limit.
      const wave = (4 + 3 * Math.sin(second / 20_000)) * GiB;
      const heldNow = Math.round(wave + (second % 60) * MiB);
      diagnosis.add({ seconds: second, limitBytes: 24 * GiB, heldBytes: heldNow });
      if (second % 60 === 0) {
        diagnosis.addProcesses(second, [{ pid: 7, name: 'python', usedBytes: heldNow }]);
        diagnosis.cause();
      }
      // Every phase of the sawtooth is met, at a seventh of the work.
      if (second % 7 === 0) {
        const { risk } = diagnosis.forecast();
        if (risk === 'high' || risk === 'critical') alarms++;
      }
      if (second % day === day - 1) held.push(heldBytes());
    }
    expect((held[6] ?? 0) - (held[1] ?? 0)).toBeLessThan(MiB);
    expect(alarms).toBe(0);
  });
});
