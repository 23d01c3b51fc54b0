import { describe, expect, it } from 'vitest';
import { createLeakDetector } from './leak.js';
import { isGrowing, ProcessGrowth } from './process-growth.js';
import { GiB } from './series-for-tests.js';

const limitBytes = 80 * GiB;

/** Held as it is, then growing by 64 MiB each second. */
function restThenGrowth(restSeconds: number): (second: number) => number {
  return (second) => 4 * GiB + Math.max(0, second - restSeconds) * (GiB / 16);
}

describe('ProcessGrowth', () => {
  it.each([0, 5, 30, 300])(
    'concludes after a rest of %i s what a detector fed from the start does',
    (restSeconds) => {
      const bytesAt = restThenGrowth(restSeconds);
      const growth = new ProcessGrowth();
      const detector = createLeakDetector();
      for (let second = 0; second <= restSeconds + 90; second++) {
        const usedBytes = bytesAt(second);
        growth.add(second, [{ pid: 7, name: 'train', usedBytes }], limitBytes);
        detector.add(second, usedBytes, limitBytes);
        const leak = detector.leak();
        expect(growth.leaks().get(7)).toEqual(isGrowing(leak) ? leak : undefined);
      }
      expect(growth.leaks().get(7)?.found).toBe(true);
    },
  );

  it('finds growth after a rest that is longer than the times that it keeps', () => {
    const growth = new ProcessGrowth();
    const bytesAt = restThenGrowth(5000);
    for (let second = 0; second <= 5060; second++) {
      growth.add(second, [{ pid: 7, name: 'train', usedBytes: bytesAt(second) }], limitBytes);
    }
    expect(growth.leaks().get(7)?.found).toBe(true);
  });

  it('forgets what it saw of a process that ended and whose pid came back', () => {
    const growth = new ProcessGrowth();
    for (let second = 0; second <= 60; second++) {
      growth.add(second, [{ pid: 7, name: 'train', usedBytes: 4 * GiB }], limitBytes);
    }
    growth.add(61, [], limitBytes);
    for (let second = 62; second <= 70; second++) {
      growth.add(second, [{ pid: 7, name: 'train', usedBytes: 9 * GiB }], limitBytes);
    }
    expect(growth.leaks().size).toBe(0);
  });
});
