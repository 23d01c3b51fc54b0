import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildFakeNvml, needsCompiler } from '../../test/fake-nvml/build.js';
import { type FakeTree, makeFakeTree } from '../../test/fake-tree.js';
import { DeviceLost } from './device.js';
import { discoverDevices } from './discover.js';

const amdCard = {
  'proc/meminfo': 'MemTotal: 5 kB\n',
  'sys/class/drm/card0/device/vendor': '0x1002\n',
  'sys/class/drm/card0/device/uevent': 'PCI_SLOT_NAME=0000:03:00.0\n',
  'sys/class/drm/card0/device/mem_info_vram_total': '1024\n',
  'sys/class/drm/card0/device/mem_info_vram_used': '24\n',
};

async function withProgram(tree: FakeTree): Promise<NodeJS.ProcessEnv> {
  const row = '0, GPU-fake-0, NVIDIA L4, 580.65.06, 23034, 512, 22062, 12';
  await tree.write({ 'bin/nvidia-smi': `#!/bin/sh\necho "${row}"\n` });
  await chmod(join(tree.folder, 'bin/nvidia-smi'), 0o755);
  return { PATH: join(tree.folder, 'bin') };
}

describe('discovery of GPUs of two makers', () => {
  it('falls back to nvidia-smi where the library cannot be loaded, and says so', async () => {
    await using tree = await makeFakeTree(amdCard);
    const env = await withProgram(tree);
    const libraryPath = join(tree.folder, 'missing.so');
    const discovery = await discoverDevices({ roots: tree.roots, env, libraryPath });
    expect(discovery.devices.map(({ info }) => [info.id, info.source])).toEqual([
      ['gpu:0', 'nvidia-smi'],
      ['gpu:1', 'amdgpu'],
      ['host', 'host'],
    ]);
    expect(discovery.notes.join()).toContain('missing.so');
    discovery.close();
  });
});

describe('discovery with a fake NVML library', needsCompiler, () => {
  it('numbers NVIDIA first, keeps numbers when a GPU goes, and does without nvidia-smi', async () => {
    await using fake = await buildFakeNvml();
    await using tree = await makeFakeTree(amdCard);
    const env = await withProgram(tree);
    const discovery = await discoverDevices({ roots: tree.roots, env, libraryPath: fake.path });
    const idsNow = (): readonly string[] =>
      discovery.devices.map(({ info }) => `${info.source} ${info.id}`);
    expect(idsNow()).toEqual(['nvml gpu:0', 'nvml gpu:1', 'amdgpu gpu:2', 'host host']);

    const [first] = discovery.devices;
    fake.set('lost', 1);
    expect(() => first?.read()).toThrow(DeviceLost);
    expect(await discovery.rescan()).toEqual({ appeared: [], vanished: [first] });
    expect(await discovery.rescan()).toEqual({ appeared: [], vanished: [] });
    expect(idsNow()).toEqual(['nvml gpu:1', 'amdgpu gpu:2', 'host host']);
    expect(discovery.notes.join()).toContain('the GPU is lost');

    fake.set('count', 3);
    await tree.write({ 'dev/nvidia2': '' });
    const { appeared } = await discovery.rescan();
    expect(appeared.map(({ info }) => info.id)).toEqual(['gpu:3']);
    discovery.close();
    expect(fake.calls('init')).toBe(fake.calls('shutdown'));
  });

  it('finds GPUs whose driver is loaded later', async () => {
    await using fake = await buildFakeNvml();
    fake.set('init_code', 9);
    await using tree = await makeFakeTree({ 'proc/meminfo': 'MemTotal: 5 kB\n' });
    const discovery = await discoverDevices({
      roots: tree.roots,
      env: {},
      libraryPath: fake.path,
    });
    expect(discovery.devices.map(({ info }) => info.id)).toEqual(['host']);
    expect(discovery.notes.join()).toContain('driver is not loaded');
    fake.set('init_code', 0);
    await tree.write({ 'proc/driver/nvidia/version': 'NVRM version: 580\n', 'dev/nvidia0': '' });
    const { appeared } = await discovery.rescan();
    expect(appeared.map(({ info }) => info.id)).toEqual(['gpu:0', 'gpu:1']);
    expect(discovery.notes).toEqual([]);
    discovery.close();
  });
});
