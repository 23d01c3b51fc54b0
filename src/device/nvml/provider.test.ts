import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { buildFakeNvml, type FakeNvml, needsCompiler } from '../../../test/fake-nvml/build.js';
import { type FakeTree, makeFakeTree } from '../../../test/fake-tree.js';
import { GiB, MiB } from '../../units/bytes.js';
import { describeConformance } from '../conformance.suite.js';
import { type Device, DeviceLost, type DeviceProvider } from '../device.js';
import { NvmlDevice } from './device.js';
import { nvmlProvider } from './provider.js';

const allOnes = 0xffff_ffff_ffff_ffffn;

describe('nvml without a driver', () => {
  it('finds nothing, says nothing and loads nothing where there is no trace of NVIDIA', async () => {
    await using tree = await makeFakeTree();
    const provider = nvmlProvider({ roots: tree.roots });
    expect(await provider.list()).toEqual({ devices: [], notes: [] });
  });

  it('says why a library that was asked for cannot be used', async () => {
    await using tree = await makeFakeTree();
    const provider = nvmlProvider({ roots: tree.roots, libraryPath: '/nowhere/libnvidia-ml.so.1' });
    const { devices, notes } = await provider.list();
    expect(devices).toEqual([]);
    expect(notes).toHaveLength(1);
    expect(notes[0]).toContain('/nowhere/libnvidia-ml.so.1');
  });

  it('says so when the file is no library', async () => {
    await using tree = await makeFakeTree({ 'lib.so': 'not a library' });
    const provider = nvmlProvider({ roots: tree.roots, libraryPath: `${tree.folder}/lib.so` });
    const { devices, notes } = await provider.list();
    expect(devices).toEqual([]);
    expect(notes[0]).toMatch(/^NVML cannot be used: /);
  });
});

describe('with a fake driver', needsCompiler, () => {
  let fake: FakeNvml;
  let tree: FakeTree;
  let provider: DeviceProvider;

  beforeAll(async () => {
    fake = await buildFakeNvml();
  });
  afterAll(() => fake[Symbol.asyncDispose]());

  describeConformance('nvml', async () => {
    const machine = await makeFakeTree({ 'proc/10/cmdline': 'python\0train.py\0' });
    fake.reset();
    fake.addProcess({ pid: 10, used: GiB });
    fake.addProcess({ pid: 11, used: 2 * GiB });
    return {
      provider: nvmlProvider({ roots: machine.roots, libraryPath: fake.path }),
      lose: () => fake.set('lost', 1),
      cleanUp: () => machine[Symbol.asyncDispose](),
    };
  });

  describeConformance('nvml with MIG instances', async () => {
    const machine = await makeFakeTree();
    fake.reset();
    fake.set('mig_mode', 1);
    fake.set('present', 1, 0, 1);
    fake.set('present', 1, 0, 3);
    return {
      provider: nvmlProvider({ roots: machine.roots, libraryPath: fake.path }),
      lose: () => fake.set('present', 0, 0, 1),
      cleanUp: () => machine[Symbol.asyncDispose](),
    };
  });

  describe('nvml against a fake driver', () => {
    beforeEach(async () => {
      fake.reset();
      tree = await makeFakeTree();
      provider = nvmlProvider({ roots: tree.roots, libraryPath: fake.path });
    });
    afterEach(async () => {
      provider.close();
      await tree[Symbol.asyncDispose]();
    });

    it('reads memory, utilization and what the device is', async () => {
      fake.set('total', 80 * GiB);
      fake.set('reserved', 600 * MiB);
      fake.set('used', 33 * GiB + 1);
      fake.set('utilization', 91);
      const [device] = await listed(provider);
      expect(device?.info).toEqual({
        id: 'gpu:0',
        kind: 'gpu',
        name: 'Fake H200',
        source: 'nvml',
        provenance: 'measured',
        uuid: 'GPU-fake-0',
        driver: '580.00.fake',
      });
      expect(await device?.read()).toEqual({
        totalBytes: 80 * GiB,
        usedBytes: 33 * GiB + 1,
        freeBytes: 47 * GiB - 600 * MiB - 1,
        utilizationPercent: 91,
      });
    });

    it('takes one driver call for a bare memory reading', async () => {
      const [device] = await listed(provider);
      if (!(device instanceof NvmlDevice)) throw new Error('no NVML device');
      const before = fake.calls('memory');
      expect(device.readMemoryBytes().totalBytes).toBe(80 * GiB);
      expect(fake.calls('memory')).toBe(before + 1);
    });

    it.each([2, 25, 3, 13])(
      'falls back to version 1 when version 2 gives code %i',
      async (code) => {
        fake.set('memory_v2_code', code);
        fake.set('reserved', GiB);
        fake.set('used', 2 * GiB);
        const [device] = await listed(provider);
        expect(await device?.read()).toMatchObject({ totalBytes: 80 * GiB, usedBytes: 3 * GiB });
      },
    );

    it('calls memory unknown, with a note, where it may not be seen', async () => {
      fake.set('memory_code', 4);
      const { devices, notes } = await provider.list();
      expect(await devices[0]?.read()).toEqual({
        totalBytes: 'unknown',
        usedBytes: 'unknown',
        freeBytes: 'unknown',
        utilizationPercent: 37,
      });
      expect(notes).toEqual([
        'The memory of gpu:0 cannot be read: this user may not see it (NVML code 4).',
      ]);
    });

    it('calls figures of all ones unknown', async () => {
      fake.set('used', allOnes);
      fake.set('utilization', 0xffff_ffff);
      const [device] = await listed(provider);
      expect(await device?.read()).toMatchObject({
        usedBytes: 'unknown',
        utilizationPercent: 'unknown',
      });
    });

    it('still reads memory where utilization is not supported', async () => {
      fake.set('utilization_code', 3);
      const [device] = await listed(provider);
      expect(await device?.read()).toMatchObject({
        totalBytes: 80 * GiB,
        utilizationPercent: 'unknown',
      });
      expect(await device?.read()).toMatchObject({ utilizationPercent: 'unknown' });
    });

    it('knows a device without a UUID again', async () => {
      fake.set('uuid_code', 4);
      const [first] = await listed(provider);
      expect(first?.info).toMatchObject({ id: 'gpu:0', uuid: 'unknown' });
      expect((await listed(provider))[0]).toBe(first);
    });

    it('leaves out a GPU that is lost from the start, with a note', async () => {
      fake.set('handle_code', 15);
      const { devices, notes } = await provider.list();
      expect(devices.map(({ info }) => info.id)).toEqual(['gpu:1']);
      expect(notes[0]).toMatch(/GPU 0 cannot be opened: the GPU is lost/);
    });

    it('takes up a lost GPU again when it comes back', async () => {
      const [first] = await listed(provider);
      fake.set('lost', 1);
      expect(() => first?.read()).toThrow(DeviceLost);
      expect(await listed(provider)).toHaveLength(1);
      fake.set('lost', 0);
      expect((await listed(provider))[0]).toBe(first);
      expect(await first?.read()).toMatchObject({ totalBytes: 80 * GiB });
    });

    it('says why the library does not start', async () => {
      fake.set('init_code', 9);
      const { devices, notes } = await provider.list();
      expect(devices).toEqual([]);
      expect(notes[0]).toContain('the NVIDIA driver is not loaded (NVML code 9)');
    });

    it('starts afresh when the driver shows new files, and keeps the devices it had', async () => {
      const [first] = await listed(provider);
      const before = await provider.fingerprint();
      expect(fake.calls('init')).toBe(1);
      fake.set('count', 3);
      await tree.write({
        'dev/nvidia2': '',
        'proc/driver/nvidia/gpus/0000:03:00.0/information': '',
      });
      expect(await provider.fingerprint()).not.toBe(before);
      const after = await listed(provider);
      expect(after.map(({ info }) => info.id)).toEqual(['gpu:0', 'gpu:1', 'gpu:2']);
      expect(after[0]).toBe(first);
      expect(fake.calls('init')).toBe(2);
      expect(fake.calls('shutdown')).toBe(1);
      expect(await first?.read()).toMatchObject({ totalBytes: 80 * GiB });
    });

    it('keeps a device that is no longer listed away from the driver', async () => {
      const [, second] = await listed(provider);
      fake.set('count', 1);
      await tree.write({ 'dev/nvidia0': '' });
      expect(await listed(provider)).toHaveLength(1);
      const calls = fake.calls('memory');
      expect(() => second?.read()).toThrow(DeviceLost);
      expect(await second?.processes()).toBe('unknown');
      expect(fake.calls('memory')).toBe(calls);
    });

    it('shuts the library down once', async () => {
      await provider.list();
      provider.close();
      provider.close();
      expect(fake.calls('shutdown')).toBe(1);
    });

    it('lists MIG instances in place of their GPU', async () => {
      fake.set('mig_mode', 1, 1);
      fake.set('present', 1, 1, 0);
      fake.set('present', 1, 1, 2);
      fake.addProcess({ pid: 70, used: GiB, gpu: 1, instance: 2 });
      const devices = await listed(provider);
      expect(devices.map(({ info }) => [info.id, info.uuid])).toEqual([
        ['gpu:0', 'GPU-fake-0'],
        ['gpu:1/mig:0', 'MIG-fake-1-0'],
        ['gpu:1/mig:2', 'MIG-fake-1-2'],
      ]);
      expect(await devices[2]?.read()).toMatchObject({
        totalBytes: 20 * GiB,
        utilizationPercent: 'unknown',
      });
      expect(await devices[2]?.processes()).toMatchObject([{ pid: 70, usedBytes: GiB }]);
      expect(await devices[1]?.processes()).toEqual([]);
    });

    it('notes a GPU in MIG mode that has no instance', async () => {
      fake.set('mig_mode', 1);
      const { devices, notes } = await provider.list();
      expect(devices.map(({ info }) => info.id)).toEqual(['gpu:1']);
      expect(notes).toEqual(['gpu:0 is in MIG mode, and no instance of it can be seen.']);
    });

    it.each([16, 24, 32])('reads processes in records of %i bytes', async (stride) => {
      fake.set('stride', stride);
      fake.addProcess({ pid: 4321, used: 5 * GiB });
      fake.addProcess({ pid: 77, used: 7 * GiB });
      fake.addProcess({ pid: 1234, used: 512 * MiB });
      const [device] = await listed(provider);
      expect(await device?.processes()).toEqual([
        { pid: 77, name: 'unknown', usedBytes: 7 * GiB },
        { pid: 4321, name: 'unknown', usedBytes: 5 * GiB },
        { pid: 1234, name: 'unknown', usedBytes: 512 * MiB },
      ]);
    });

    it('names processes, counts one that computes and draws once, and admits what it cannot see', async () => {
      await tree.write({
        'proc/50/cmdline': '/usr/bin/python3\0train.py\0',
        'proc/60/comm': 'Xorg\n',
        'proc/60/cmdline': '',
      });
      fake.addProcess({ pid: 50, used: 3 * GiB });
      fake.addProcess({ pid: 50, used: 3 * GiB, graphics: true });
      fake.addProcess({ pid: 60, used: allOnes, graphics: true });
      const [device] = await listed(provider);
      expect(await device?.processes()).toEqual([
        { pid: 50, name: 'python3', usedBytes: 3 * GiB },
        { pid: 60, name: 'Xorg', usedBytes: 'unknown' },
      ]);
    });

    it('maps the host ids of processes by NSpid', async () => {
      await tree.write({
        'proc/7/cmdline': 'python\0',
        'proc/7/status': 'Name:\tpython\nNSpid:\t54321\t7\n',
      });
      fake.addProcess({ pid: 54_321, used: GiB });
      const [device] = await listed(provider);
      expect(await device?.processes()).toEqual([{ pid: 7, name: 'python', usedBytes: GiB }]);
    });

    it('asks again when more processes came between two calls', async () => {
      fake.addProcess({ pid: 5, used: GiB });
      fake.set('late_processes', 1);
      const [device] = await listed(provider);
      const processes = await device?.processes();
      expect(processes).toHaveLength(21);
    });

    it.each([3, 4])('calls processes unknown when the driver answers %i', async (code) => {
      fake.set('processes_code', code);
      const [device] = await listed(provider);
      expect(await device?.processes()).toBe('unknown');
    });
  });

  describe('nvml with an old driver', () => {
    it('does without every newer symbol', async () => {
      await using old = await buildFakeNvml([
        'WITHOUT_MEMORY_V2',
        'WITHOUT_UTILIZATION',
        'WITHOUT_MIG',
        'WITHOUT_PROCESSES_V2',
        'WITHOUT_PROCESSES_V3',
      ]);
      await using machine = await makeFakeTree();
      old.set('used', 2 * GiB);
      old.set('reserved', GiB);
      old.addProcess({ pid: 8, used: GiB });
      old.addProcess({ pid: 9, used: 2 * GiB });
      const aged = nvmlProvider({ roots: machine.roots, libraryPath: old.path });
      const [device] = await listed(aged);
      expect(await device?.read()).toEqual({
        totalBytes: 80 * GiB,
        usedBytes: 3 * GiB,
        freeBytes: 77 * GiB,
        utilizationPercent: 'unknown',
      });
      expect(await device?.processes()).toMatchObject([
        { pid: 9, usedBytes: 2 * GiB },
        { pid: 8, usedBytes: GiB },
      ]);
      aged.close();
    });

    it('uses the second version of the process list where the third is missing', async () => {
      await using middle = await buildFakeNvml(['WITHOUT_PROCESSES_V3']);
      await using machine = await makeFakeTree();
      middle.addProcess({ pid: 8, used: GiB });
      middle.addProcess({ pid: 9, used: 2 * GiB });
      const aged = nvmlProvider({ roots: machine.roots, libraryPath: middle.path });
      const [device] = await listed(aged);
      expect(await device?.processes()).toMatchObject([{ pid: 9 }, { pid: 8 }]);
      aged.close();
    });
  });
});

async function listed(provider: DeviceProvider): Promise<readonly Device[]> {
  return (await provider.list()).devices;
}
