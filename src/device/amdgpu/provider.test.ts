import { describe, expect, it } from 'vitest';
import { type FakeTree, makeFakeTree } from '../../../test/fake-tree.js';
import { GiB, MiB } from '../../units/bytes.js';
import { describeConformance } from '../conformance.suite.js';
import { GpuNumbers } from '../select-devices.js';
import { amdgpuProvider } from './provider.js';

function card(number: number, files: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries({ vendor: '0x1002\n', ...files }).map(([name, content]) => [
      `sys/class/drm/card${number}/device/${name}`,
      content,
    ]),
  );
}

const first = {
  device: '0x744c\n',
  uevent: 'DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n',
  unique_id: '3f1a9c7be0142d58\n',
  product_name: 'Radeon RX 7900 XTX\n',
  mem_info_vram_total: `${24 * GiB}\n`,
  mem_info_vram_used: `${5 * GiB}\n`,
  gpu_busy_percent: '63\n',
};
const second = {
  device: '0x740f\n',
  uevent: 'DRIVER=amdgpu\nPCI_SLOT_NAME=0000:83:00.0\n',
  mem_info_vram_total: `${64 * GiB}\n`,
  mem_info_vram_used: `${GiB}\n`,
};

function client(id: number, pci: string, kib: number): string {
  return `pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t${id}\ndrm-pdev:\t${pci}\ndrm-memory-vram:\t${kib} KiB\n`;
}

async function machine(): Promise<FakeTree> {
  const tree = await makeFakeTree({
    ...card(0, { vendor: '0x8086\n' }),
    ...card(1, first),
    ...card(10, second),
    'sys/class/drm/card1-DP-1/status': 'connected\n',
    'proc/300/cmdline': '/opt/python\0train.py\0',
    'proc/300/fdinfo/5': client(7, '0000:03:00.0', 1024),
    'proc/300/fdinfo/6': client(8, '0000:03:00.0', 2048),
    'proc/300/fdinfo/7': client(9, '0000:83:00.0', 4096),
    'proc/300/fdinfo/9': client(99, '0000:03:00.0', 999_999),
    'proc/301/comm': 'worker\n',
    'proc/301/fdinfo/5': client(8, '0000:03:00.0', 2048),
    'proc/301/fdinfo/6': client(11, '0000:03:00.0', 8192),
    'proc/302/comm': 'idle\n',
  });
  await tree.link({
    'proc/300/fd/5': '/dev/dri/renderD128',
    'proc/300/fd/6': '/dev/dri/card1',
    'proc/300/fd/7': '/dev/dri/renderD129',
    'proc/300/fd/9': '/tmp/not-a-gpu',
    'proc/301/fd/5': '/dev/dri/card1',
    'proc/301/fd/6': '/dev/dri/renderD128',
    'proc/302/fd/0': '/dev/null',
  });
  return tree;
}

describeConformance('amdgpu', async () => {
  const tree = await machine();
  return {
    provider: amdgpuProvider({ roots: tree.roots }),
    lose: () => tree.remove('sys/class/drm/card1'),
    cleanUp: () => tree[Symbol.asyncDispose](),
  };
});

describe('amdgpu', () => {
  it('reads memory, utilization and what the devices are, in the order of the cards', async () => {
    await using tree = await machine();
    await tree.write({ 'sys/module/amdgpu/version': '6.12.12\n' });
    const { devices, notes } = await amdgpuProvider({ roots: tree.roots }).list();
    expect(notes).toEqual([]);
    expect(devices.map(({ info }) => info)).toEqual([
      {
        id: 'gpu:0',
        kind: 'gpu',
        name: 'Radeon RX 7900 XTX',
        source: 'amdgpu',
        provenance: 'measured',
        uuid: '3f1a9c7be0142d58',
        driver: '6.12.12',
      },
      expect.objectContaining({ id: 'gpu:1', name: 'AMD GPU 1002:740f', uuid: 'unknown' }),
    ]);
    expect(await devices[0]?.read()).toEqual({
      totalBytes: 24 * GiB,
      usedBytes: 5 * GiB,
      freeBytes: 19 * GiB,
      utilizationPercent: 63,
    });
    expect(await devices[1]?.read()).toMatchObject({ utilizationPercent: 'unknown' });
  });

  it('adds up the open files of a process, and counts a shared one once', async () => {
    await using tree = await machine();
    const [device, other] = (await amdgpuProvider({ roots: tree.roots }).list()).devices;
    expect(await device?.processes()).toEqual([
      { pid: 301, name: 'worker', usedBytes: 8 * MiB },
      { pid: 300, name: 'python', usedBytes: 3 * MiB },
    ]);
    expect(await other?.processes()).toEqual([{ pid: 300, name: 'python', usedBytes: 4 * MiB }]);
  });

  it('calls what it cannot read unknown', async () => {
    await using tree = await machine();
    const [device] = (await amdgpuProvider({ roots: tree.roots }).list()).devices;
    await tree.write(card(1, { mem_info_vram_used: 'nonsense\n', gpu_busy_percent: '250\n' }));
    await tree.remove('proc');
    expect(await device?.read()).toEqual({
      totalBytes: 24 * GiB,
      usedBytes: 'unknown',
      freeBytes: 'unknown',
      utilizationPercent: 'unknown',
    });
    expect(await device?.processes()).toBe('unknown');
  });

  it('notes an AMD card that another driver holds', async () => {
    await using tree = await makeFakeTree(card(0, { uevent: 'PCI_SLOT_NAME=0000:0a:00.0\n' }));
    const { devices, notes } = await amdgpuProvider({ roots: tree.roots }).list();
    expect(devices).toEqual([]);
    expect(notes[0]).toContain('0000:0a:00.0');
  });

  it('numbers its GPUs after those that have a number', async () => {
    await using tree = await machine();
    const numbers = new GpuNumbers();
    numbers.numberOf('GPU-nvidia', 0);
    const { devices } = await amdgpuProvider({ roots: tree.roots, numbers }).list();
    expect(devices.map(({ info }) => info.id)).toEqual(['gpu:1', 'gpu:2']);
  });

  it('shows a GPU that came later in its fingerprint', async () => {
    await using tree = await makeFakeTree(card(1, first));
    const provider = amdgpuProvider({ roots: tree.roots });
    const before = await provider.fingerprint();
    const [device] = (await provider.list()).devices;
    await tree.write(card(10, second));
    expect(await provider.fingerprint()).not.toBe(before);
    const { devices } = await provider.list();
    expect(devices).toHaveLength(2);
    expect(devices[0]).toBe(device);
  });
});
