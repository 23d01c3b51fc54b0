import { describe, expect, it } from 'vitest';
import { DeviceLost } from '../../device/device.js';
import { fakeDevice, memory } from '../fake-device-for-tests.js';
import { type SamplerRun, startSampler } from './sampler-for-tests.js';

const count = (length: number): number[] => Array.from({ length }, (_, index) => index);

describe('a device that goes and comes', () => {
  it('is told once when it is lost, the rest goes on, and it is taken up when it answers', async () => {
    const run: SamplerRun = startSampler(
      [
        fakeDevice({
          read() {
            const at = run.clock.seconds();
            if (at > 2 && at < 12) throw new DeviceLost('gpu:0', 'fell off the bus');
            return memory(1);
          },
        }),
        fakeDevice({ id: 'host' }),
      ],
      { durationSeconds: 20, processIntervalSeconds: 100 },
    );
    await run.clock.advance(30);
    await run.done;
    expect(run.log.filter((line) => !/^(sample|processes)/.test(line))).toEqual([
      'vanished gpu:0 fell off the bus@3',
      'appeared gpu:0 @16',
    ]);
    expect(run.times('sample')).toEqual([0, 1, 2, 16, 17, 18, 19]);
    expect(run.times('sample', 'host')).toEqual(count(20));
  });

  it('may fail twice in a row for another reason, not three times', async () => {
    const bad = new Set([2, 3, 6, 7, 8]);
    const run: SamplerRun = startSampler(
      [
        fakeDevice({
          read: () =>
            bad.has(run.clock.seconds())
              ? Promise.reject(new Error('driver is busy'))
              : Promise.resolve(memory(1)),
        }),
      ],
      { durationSeconds: 10, rescanSeconds: 100 },
    );
    await run.clock.advance(20);
    await run.done;
    expect(run.times('sample')).toEqual([0, 1, 4, 5]);
    expect(run.log).toContain('vanished gpu:0 driver is busy@8');
  });

  it('follows what a rescan finds, and survives a rescan that fails or hangs', async () => {
    const second = fakeDevice({ id: 'gpu:1', uuid: 'GPU-1' });
    const again = fakeDevice({ id: 'gpu:0', uuid: 'GPU-1' });
    const answers = [
      () => Promise.resolve({ appeared: [second], vanished: [] }),
      () => Promise.reject(new Error('driver unloaded')),
      () => Promise.resolve({ appeared: [], vanished: [second] }),
      () => Promise.resolve({ appeared: [again], vanished: [] }),
      () => new Promise<never>(() => {}),
    ];
    let asked = 0;
    const run = startSampler(
      [],
      { durationSeconds: 40, intervalSeconds: 2 },
      { rescan: async () => (await answers[asked++]?.()) ?? { appeared: [], vanished: [] } },
    );
    await run.clock.advance(50);
    await run.done;
    expect(run.log.filter((line) => !/^(sample|processes)/.test(line))).toEqual([
      'appeared gpu:1 @5',
      'Looking for devices failed: Error: driver unloaded',
      'vanished gpu:1 It is no longer listed.@15',
      'appeared gpu:0 @20',
    ]);
    expect(run.times('sample', 'gpu:1')).toEqual([6, 8, 10, 12, 14]);
    expect(run.times('sample', 'gpu:0').at(-1)).toBe(38);
    // The one that hangs is waited for, not asked over and over.
    expect(asked).toBe(5);
  });

  it('is told gone once, when both its reading and the rescan say so', async () => {
    const device = fakeDevice({
      read() {
        throw new DeviceLost('gpu:0', 'lost');
      },
    });
    let asked = 0;
    const run = startSampler(
      [device],
      { durationSeconds: 30 },
      { rescan: async () => ({ appeared: [], vanished: ++asked === 2 ? [device] : [] }) },
    );
    await run.clock.advance(40);
    await run.done;
    expect(run.log.filter((line) => line.startsWith('vanished'))).toEqual([
      'vanished gpu:0 lost@0',
    ]);
  });
});
