import { describe, expect, it } from 'vitest';
import { DeviceLost } from '../../device/device.js';
import { fakeLeak, fakeState } from '../../report/state-for-tests.js';
import { MiB } from '../../units/bytes.js';
import { fakeDevice } from '../../watch/fake-device-for-tests.js';
import type { Leak } from '../../watch/types.js';
import { followProcess, LeakNews, leakName, leakVerdict, type ProcessTable } from './leak.js';

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

const leaking = (grownBytes: Leak['grownBytes']) =>
  fakeLeak({ found: true, grownBytes, bytesPerSecond: MiB });
const verdict = (...leaks: Leak[]) =>
  leakVerdict(
    leaks.map((leak) => fakeState({ leak })),
    100 * MiB,
  ).found;

describe('leakVerdict', () => {
  it('counts a leak that is found and large enough, nothing less', () => {
    expect(verdict(leaking(100 * MiB))).toBe(true);
    expect(verdict(leaking(99 * MiB))).toBe(false);
    expect(verdict(leaking('unknown'))).toBe(false);
    expect(verdict(fakeLeak({ found: false, grownBytes: 500 * MiB }))).toBe(false);
  });

  it('is unknown while anything is, unless a leak was found', () => {
    const unknown = fakeLeak({
      found: 'unknown',
      bytesPerSecond: 'unknown',
      grownBytes: 'unknown',
    });
    expect(verdict(unknown, unknown)).toBe('unknown');
    expect(verdict(unknown, fakeLeak())).toBe('unknown');
    expect(verdict(unknown, leaking(200 * MiB))).toBe(true);
  });

  it('is unknown while one process grows, and says how long to watch', () => {
    const of = (grownBytes: number) => {
      const rate = { bytesPerSecond: MiB, grownBytes, watchSeconds: 12 };
      const grows = fakeLeak({ found: 'unknown', ...rate });
      return leakVerdict([fakeState({ processLeaks: new Map([[7, grows]]) })], 100 * MiB);
    };
    expect(of(90 * MiB)).toMatchObject({ found: 'unknown', watchSeconds: 12 });
    // It cannot reach what counts by the time that it is decided.
    expect(of(80 * MiB)).toMatchObject({ found: false, watchSeconds: 0 });
  });

  it('counts a leak in one process, with its name', () => {
    const state = fakeState({
      processes: [{ pid: 7, name: 'python', usedBytes: MiB }],
      processLeaks: new Map([[7, leaking(200 * MiB)]]),
    });
    const { found, devices } = leakVerdict([state], 100 * MiB);
    expect(found).toBe(true);
    expect(devices[0]?.processLeaks[0]).toMatchObject({
      pid: 7,
      name: 'python',
      overThreshold: true,
    });
  });
});

describe('LeakNews', () => {
  it('tells a leak when it is found and each time it has doubled', () => {
    const news = new LeakNews(100 * MiB);
    const announced = [50, 100, 150, 199, 200, 399, 400].map((grown) =>
      news.take('gpu:0', leaking(grown * MiB)),
    );
    expect(announced).toEqual([false, true, false, false, true, false, true]);
  });

  it('tells it again after it was over', () => {
    const news = new LeakNews(100 * MiB);
    expect(news.take('gpu:0', leaking(100 * MiB))).toBe(true);
    expect(news.take('gpu:0', fakeLeak())).toBe(false);
    expect(news.take('gpu:0', leaking(110 * MiB))).toBe(true);
    expect(news.take('gpu:1', leaking(110 * MiB))).toBe(true);
  });
});

const facts = {
  pid: 4711,
  parent: 1,
  started: 5,
  user: 'ada',
  commandLine: '/usr/bin/python3 train.py --lr 1',
  script: 'train.py',
  container: 'docker 3f2a9c1b7d04',
  run: 'none',
  job: undefined,
};

describe('leakName', () => {
  it('names script, user, command line and container, and how to find the tensors', () => {
    expect(leakName(facts)).toMatchObject({
      user: 'ada',
      commandLine: '/usr/bin/python3 train.py --lr 1',
      script: 'train.py',
      container: 'docker 3f2a9c1b7d04',
      next: expect.stringMatching(
        /^pip install plimsoll, then in train\.py put .*plimsoll\.debugger/,
      ),
    });
    expect(leakName({ ...facts, run: 'run-7' }).next).toContain('in this program (run run-7)');
  });

  it('has another next step for what is no Python', () => {
    expect(
      leakName({ ...facts, commandLine: 'node server.js', script: 'server.js' }).next,
    ).toContain('heapsnapshot-signal');
    expect(leakName({ ...facts, commandLine: '/opt/sim/solver', script: 'none' }).next).toContain(
      'plimsoll monitor shows process 4711',
    );
  });
});
