import { describe, expect, it } from 'vitest';
import { DeviceLost } from '../../device/types.js';
import { MiB } from '../../units/bytes.js';
import { fakeDevice } from '../../watch/fake-device-for-tests.js';
import { followProcess, type ProcessTable } from './followed-process.js';

const alive: ProcessTable = { isAlive: () => true, hostBytes: () => Promise.resolve(7 * MiB) };
const holds = (pid: number, usedBytes: number) => () =>
  Promise.resolve([{ pid, name: 'python', usedBytes }]);
const host = fakeDevice({ id: 'host', kind: 'host' });

describe('followProcess', () => {
  it('takes its memory on the GPUs that hold some of it', async () => {
    const devices = [
      fakeDevice({ id: 'gpu:0', processes: holds(42, 5 * MiB) }),
      fakeDevice({ id: 'gpu:1', processes: holds(43, 9 * MiB) }),
      host,
    ];
    const followed = await followProcess(42, devices, alive);
    expect(followed.map(({ info }) => info.id)).toEqual(['gpu:0']);
    expect(await followed[0]?.read()).toMatchObject({ usedBytes: 5 * MiB });
    expect(followed[0]?.info.name).toBe('process 42 on Fake GPU');
  });

  it('takes its memory on the host when no GPU holds any, or none tells', async () => {
    const silent = fakeDevice({ processes: () => Promise.resolve('unknown') });
    const followed = await followProcess(42, [silent, host], alive);
    expect(followed.map(({ info }) => info.id)).toEqual(['host']);
    expect(await followed[0]?.read()).toMatchObject({ usedBytes: 7 * MiB });
  });

  it('reads 0, not unknown, once it gave all back on a GPU', async () => {
    let pid = 42;
    const gpu = fakeDevice({ processes: () => holds(pid, MiB)() });
    const followed = await followProcess(42, [gpu], alive);
    pid = 43;
    expect(await followed[0]?.read()).toMatchObject({ usedBytes: 0 });
  });

  it('is lost when the process ends', async () => {
    let running = true;
    const followed = await followProcess(42, [host], { ...alive, isAlive: () => running });
    running = false;
    await expect(async () => followed[0]?.read()).rejects.toBeInstanceOf(DeviceLost);
  });

  it('refuses a process that is not there, or not on the devices named', async () => {
    const dead = { ...alive, isAlive: () => false };
    await expect(followProcess(42, [host], dead)).rejects.toMatchObject({
      code: 'unknown-process',
      exitCode: 2,
    });
    const gpu = fakeDevice({ processes: holds(43, MiB) });
    await expect(followProcess(42, [gpu], alive)).rejects.toMatchObject({
      fact: 'Process 42 uses no memory on gpu:0.',
    });
  });

  it('reads this very process', async () => {
    const followed = await followProcess(process.pid, [host]);
    const reading = await followed[0]?.read();
    expect(reading?.usedBytes).toBeGreaterThan(MiB);
  });
});
