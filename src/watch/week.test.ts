// @module-tag rest
import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../time/clock.js';
import { GiB, MiB } from '../units/bytes.js';
import { fakeDevice, fakeDiagnosis, heldBytes, memory } from './fake-device-for-tests.js';
import { watch } from './watch.js';

const day = 86_400;

describe('a week at 1 Hz', () => {
  it('keeps memory flat, and forgets no peak', async () => {
    const clock = createVirtualClock();
    // A sawtooth over a slow wave, full to the brim once, on the third day.
    const device = fakeDevice({
      read() {
        const at = clock.seconds();
        if (at === 2.5 * day) return memory(10 * GiB);
        return memory(Math.round((4 + 3 * Math.sin(at / 20_000)) * GiB + (at % 60) * MiB));
      },
      processes: () => Promise.resolve([{ pid: 7, name: 'python', usedBytes: GiB }]),
    });
    const watching = watch({
      devices: [device],
      clock,
      intervalSeconds: 1,
      processIntervalSeconds: 60,
      rescanSeconds: 600,
      durationSeconds: 7 * day,
      createDiagnosis: fakeDiagnosis,
    });
    let samples = 0;
    let alerts = 0;
    const consuming = (async () => {
      for await (const event of watching) {
        if (event.type === 'sample') samples++;
        if (event.type === 'alert') alerts++;
      }
    })();
    const held: number[] = [];
    const footprints: number[] = [];
    for (let today = 1; today <= 7; today++) {
      await clock.advance(day);
      held.push(heldBytes());
      footprints.push(watching.states()[0]?.history.footprintBytes ?? 0);
    }
    await clock.advance(5);
    await consuming;
    expect(samples).toBe(7 * day);
    expect(alerts).toBe(4);
    expect(new Set(footprints).size).toBe(1);
    expect(footprints[0]).toBeLessThanOrEqual(5_000_000);
    expect((held[6] ?? 0) - (held[1] ?? 0)).toBeLessThan(MiB);
    const history = watching.states()[0]?.history;
    expect(history?.statistics()).toMatchObject({
      samples: 7 * day,
      maxUsedBytes: 10 * GiB,
      maxAtSeconds: 2.5 * day,
    });
    expect(Math.max(...(history?.series('used').max ?? []))).toBe(10 * GiB);
  });
});
