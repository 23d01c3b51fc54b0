import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { describe, expect, it } from 'vitest';
import { type FakeTree, makeFakeTree } from '../../../test/fake-tree.js';
import { createVirtualClock } from '../../time/clock.js';
import { GiB, MiB } from '../../units/bytes.js';
import { describeConformance } from '../conformance.suite.js';
import type { Device } from '../device.js';
import { hostProvider } from './provider.js';

const meminfo = `MemTotal: ${64 * 1024 * 1024} kB
MemFree: ${8 * 1024 * 1024} kB
MemAvailable: ${48 * 1024 * 1024} kB
SwapTotal: ${4 * 1024 * 1024} kB
SwapFree: ${3 * 1024 * 1024} kB
`;
const pressure =
  'some avg10=2.50 avg60=0.00 avg300=0.00 total=9\nfull avg10=1.25 avg60=0 total=1\n';

async function bareMachine(): Promise<FakeTree> {
  return makeFakeTree({
    'proc/meminfo': meminfo,
    'proc/pressure/memory': pressure,
    'proc/stat': 'cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1\n',
    'proc/1/statm': '5000 1000 500 1 0 100 0\n',
    'proc/1/cmdline': '/sbin/init\0',
    'proc/2/statm': '0 0 0 0 0 0 0\n',
    'proc/2/comm': 'kthreadd\n',
    'proc/40/statm': '900000 3000 500 1 0 100 0\n',
    'proc/40/cmdline': 'python3\0train.py\0',
    'proc/40/smaps_rollup': '00400000-7fff [rollup]\nRss: 12000 kB\nPss: 2000 kB\n',
  });
}

async function withV2(limits: Readonly<Record<string, string>>): Promise<FakeTree> {
  const tree = await bareMachine();
  const point = `${tree.folder}/cgroup`;
  await tree.write({
    'proc/self/cgroup': '0::/team/job\n',
    'proc/self/mountinfo': `30 23 0:26 / ${point} rw - cgroup2 cgroup2 rw\n`,
    'cgroup/team/job/memory.current': `${10 * GiB}\n`,
    'cgroup/team/job/memory.stat': `anon 5\ninactive_file ${3 * GiB}\nactive_file 7\n`,
    'cgroup/team/job/memory.pressure': pressure.replace('2.50', '7.50'),
    'cgroup/team/memory.current': `${20 * GiB}\n`,
    'cgroup/team/memory.stat': `inactive_file ${GiB}\n`,
    'cgroup/team/memory.pressure': pressure.replace('2.50', '9.50'),
    ...limits,
  });
  return tree;
}

async function hostOf(tree: FakeTree, clock = createVirtualClock()): Promise<Device> {
  const [host] = (await hostProvider({ roots: tree.roots, clock, platform: 'linux' }).list())
    .devices;
  if (host === undefined) throw new Error('no host');
  return host;
}

describeConformance('host, this machine', () => Promise.resolve({ provider: hostProvider() }));

describeConformance('host, a fake machine', async () => {
  const tree = await bareMachine();
  return {
    provider: hostProvider({ roots: tree.roots, platform: 'linux' }),
    cleanUp: () => tree[Symbol.asyncDispose](),
  };
});

describeConformance('host, with nothing in /proc', async () => {
  const tree = await makeFakeTree();
  return {
    provider: hostProvider({ roots: tree.roots, platform: 'linux' }),
    cleanUp: () => tree[Symbol.asyncDispose](),
  };
});

describeConformance('host, not on Linux', () =>
  Promise.resolve({ provider: hostProvider({ platform: 'darwin' }) }),
);

describe('the host without a cgroup', () => {
  it('counts as used what is not available', async () => {
    await using tree = await bareMachine();
    const host = await hostOf(tree);
    expect(await host.read()).toEqual({
      totalBytes: 64 * GiB,
      usedBytes: 16 * GiB,
      freeBytes: 48 * GiB,
      utilizationPercent: 'unknown',
      host: {
        swapTotalBytes: 4 * GiB,
        swapUsedBytes: GiB,
        limitBytes: 'none',
        limitedBy: 'ram',
        pressureSomePercent: 2.5,
        pressureFullPercent: 1.25,
      },
    });
  });

  it('takes utilization from the time between readings', async () => {
    await using tree = await bareMachine();
    const clock = createVirtualClock();
    const host = await hostOf(tree, clock);
    await host.read();
    await tree.write({ 'proc/stat': 'cpu  300 0 100 1000 0 0 0 0 0 0\n' });
    await clock.advance(0.1);
    expect(await host.read()).toMatchObject({ utilizationPercent: 'unknown' });
    await clock.advance(1);
    expect(await host.read()).toMatchObject({ utilizationPercent: 50 });
  });

  it('lists processes by their share of memory, exact for the largest', async () => {
    await using tree = await bareMachine();
    const host = await hostOf(tree);
    expect(await host.processes()).toEqual([
      { pid: 1, name: 'init', usedBytes: 1000 * 4096 },
      { pid: 40, name: 'python3', usedBytes: 2000 * 1024 },
    ]);
  });

  it('calls everything unknown where /proc tells nothing', async () => {
    await using tree = await makeFakeTree();
    const host = await hostOf(tree);
    expect(await host.read()).toMatchObject({
      totalBytes: 'unknown',
      usedBytes: 'unknown',
      freeBytes: 'unknown',
      host: { swapUsedBytes: 'unknown', pressureSomePercent: 'unknown', limitBytes: 'none' },
    });
    expect(await host.processes()).toBe('unknown');
  });
});

describe('the host under a version 2 cgroup', () => {
  it('has the tightest limit above the process as its capacity', async () => {
    await using tree = await withV2({
      'cgroup/team/job/memory.max': `${16 * GiB}\n`,
      'cgroup/team/memory.max': `${32 * GiB}\n`,
    });
    expect(await (await hostOf(tree)).read()).toMatchObject({
      totalBytes: 16 * GiB,
      usedBytes: 7 * GiB,
      freeBytes: 9 * GiB,
      host: { limitBytes: 16 * GiB, limitedBy: 'cgroup-v2', pressureSomePercent: 7.5 },
    });
  });

  it('counts everything below the level that sets the limit', async () => {
    await using tree = await withV2({
      'cgroup/team/job/memory.max': 'max\n',
      'cgroup/team/memory.max': `${32 * GiB}\n`,
    });
    expect(await (await hostOf(tree)).read()).toMatchObject({
      totalBytes: 32 * GiB,
      usedBytes: 19 * GiB,
      host: { limitedBy: 'cgroup-v2', pressureSomePercent: 9.5 },
    });
  });

  it('has no more free than the machine', async () => {
    await using tree = await withV2({ 'cgroup/team/job/memory.max': `${63 * GiB}\n` });
    expect(await (await hostOf(tree)).read()).toMatchObject({
      totalBytes: 63 * GiB,
      usedBytes: 7 * GiB,
      freeBytes: 48 * GiB,
    });
  });

  it.each(['max\n', `${64 * GiB}\n`, `${100 * GiB}\n`])(
    'is the machine where the limit is %s and binds nothing',
    async (limit) => {
      await using tree = await withV2({ 'cgroup/team/job/memory.max': limit });
      expect(await (await hostOf(tree)).read()).toMatchObject({
        totalBytes: 64 * GiB,
        usedBytes: 16 * GiB,
        host: { limitBytes: 'none', limitedBy: 'ram', pressureSomePercent: 2.5 },
      });
    },
  );

  it('follows a limit that is changed', async () => {
    await using tree = await withV2({ 'cgroup/team/job/memory.max': `${16 * GiB}\n` });
    const clock = createVirtualClock();
    const host = await hostOf(tree, clock);
    await host.read();
    await tree.write({ 'cgroup/team/job/memory.max': `${12 * GiB}\n` });
    await clock.advance(10);
    expect(await host.read()).toMatchObject({ totalBytes: 12 * GiB, freeBytes: 5 * GiB });
  });

  it('stays within the limit when more is counted than it allows', async () => {
    await using tree = await withV2({ 'cgroup/team/job/memory.max': `${5 * GiB}\n` });
    expect(await (await hostOf(tree)).read()).toMatchObject({
      totalBytes: 5 * GiB,
      usedBytes: 5 * GiB,
      freeBytes: 0,
    });
  });
});

describe('the host under a version 1 cgroup', () => {
  it('reads limit, usage and cache under their old names', async () => {
    await using tree = await bareMachine();
    await tree.write({
      'proc/self/cgroup': '4:memory:/batch/7\n0::/\n',
      'proc/self/mountinfo': `35 31 0:32 / ${tree.folder}/memory rw - cgroup cgroup rw,memory\n`,
      'memory/memory.limit_in_bytes': '9223372036854771712\n',
      'memory/memory.use_hierarchy': '1\n',
      'memory/batch/memory.limit_in_bytes': '9223372036854771712\n',
      'memory/batch/7/memory.limit_in_bytes': `${8 * GiB}\n`,
      'memory/batch/7/memory.usage_in_bytes': `${6 * GiB}\n`,
      'memory/batch/7/memory.stat': `inactive_file 5\ntotal_inactive_file ${512 * MiB}\n`,
    });
    expect(await (await hostOf(tree)).read()).toMatchObject({
      totalBytes: 8 * GiB,
      usedBytes: 5.5 * GiB,
      freeBytes: 2.5 * GiB,
      host: { limitBytes: 8 * GiB, limitedBy: 'cgroup-v1', pressureSomePercent: 2.5 },
    });
  });

  it('does not count the limit of a parent that counts itself alone', async () => {
    await using tree = await bareMachine();
    await tree.write({
      'proc/self/cgroup': '4:memory:/batch/7\n',
      'proc/self/mountinfo': `35 31 0:32 / ${tree.folder}/memory rw - cgroup cgroup rw,memory\n`,
      'memory/batch/memory.limit_in_bytes': `${GiB}\n`,
      'memory/batch/memory.use_hierarchy': '0\n',
      'memory/batch/7/memory.limit_in_bytes': `${8 * GiB}\n`,
      'memory/batch/7/memory.usage_in_bytes': `${6 * GiB}\n`,
    });
    expect(await (await hostOf(tree)).read()).toMatchObject({ totalBytes: 8 * GiB });
  });
});

describe('the host on this machine', () => {
  it('agrees with Node on how much RAM there is, or is under a cgroup', async () => {
    const [host] = (await hostProvider().list()).devices;
    const reading = await host?.read();
    const expected = reading?.host?.limitBytes === 'none' ? totalmem() : reading?.host?.limitBytes;
    expect(reading?.totalBytes).toBe(expected);
  });

  it('finds this very process, of about the size it has, where there is /proc', async () => {
    const [host] = (await hostProvider().list()).devices;
    const processes = await host?.processes();
    const own =
      processes === undefined || processes === 'unknown'
        ? undefined
        : processes.find(({ pid }) => pid === process.pid);
    const hasProc = process.platform === 'linux';
    expect(own !== undefined).toBe(hasProc);
    const rss = hasProc ? residentBytes() : 0;
    const used = own?.usedBytes === 'unknown' ? 0 : (own?.usedBytes ?? 0);
    expect(used).toBeGreaterThanOrEqual(rss / 4);
    expect(used).toBeLessThanOrEqual(rss * 4);
  });
});

function residentBytes(): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(line?.[1]) * 1024;
}
