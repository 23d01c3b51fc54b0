import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { Failure } from '../failure.js';
import { GiB } from '../units/bytes.js';
import type { Device, DeviceProvider } from './device.js';
import { type Discovery, discoverDevices } from './discover.js';

const open: Discovery[] = [];

async function discover(...args: Parameters<typeof discoverDevices>): Promise<Discovery> {
  const discovery = await discoverDevices(...args);
  open.push(discovery);
  return discovery;
}

afterEach(() => {
  for (const discovery of open.splice(0)) discovery.close();
});

function device(id: string): Device {
  return {
    info: {
      id,
      kind: 'gpu',
      name: id,
      source: 'nvml',
      provenance: 'measured',
      uuid: 'unknown',
      driver: 'unknown',
    },
    read: () => ({
      totalBytes: 1,
      usedBytes: 0,
      freeBytes: 1,
      utilizationPercent: 'unknown',
    }),
    processes: () => Promise.resolve([]),
  };
}

/** A provider whose machine the test can change. */
class FakeProvider implements DeviceProvider {
  readonly source = 'nvml';
  devices: readonly Device[] = [];
  notes: readonly string[] = [];
  broken = false;
  listings = 0;
  closings = 0;

  fingerprint(): Promise<string> {
    if (this.broken) return Promise.reject(new Error('it broke'));
    return Promise.resolve(this.devices.map(({ info }) => info.id).join());
  }

  list(): Promise<{ devices: readonly Device[]; notes: readonly string[] }> {
    this.listings += 1;
    return Promise.resolve({ devices: this.devices, notes: this.notes });
  }

  close(): void {
    this.closings += 1;
  }
}

function idsOf(devices: readonly Device[]): readonly string[] {
  return devices.map(({ info }) => info.id);
}

describe('discoverDevices', () => {
  it('always finds the host of this machine, as the last device', async () => {
    const { devices } = await discover();
    expect(devices.at(-1)?.info.id).toBe('host');
    expect((await devices.at(-1)?.read())?.totalBytes).toBeGreaterThan(0);
  });

  it('finds only the host, and has nothing to say, on a machine without GPUs', async () => {
    await using tree = await makeFakeTree({ 'proc/meminfo': 'MemTotal: 5 kB\n' });
    const discovery = await discover({ roots: tree.roots, env: {} });
    expect(idsOf(discovery.devices)).toEqual(['host']);
    expect(discovery.notes).toEqual([]);
  });

  it('finds AMD GPUs before the host, and one that comes later', async () => {
    await using tree = await makeFakeTree({ 'proc/meminfo': 'MemTotal: 5 kB\n' });
    const discovery = await discover({ roots: tree.roots, env: {} });
    await tree.write({
      'sys/class/drm/card0/device/vendor': '0x1002\n',
      'sys/class/drm/card0/device/uevent': 'PCI_SLOT_NAME=0000:03:00.0\n',
      'sys/class/drm/card0/device/mem_info_vram_total': '1024\n',
      'sys/class/drm/card0/device/mem_info_vram_used': '24\n',
    });
    const { appeared, vanished } = await discovery.rescan();
    expect(appeared.map(({ info }) => info.source)).toEqual(['amdgpu']);
    expect(vanished).toEqual([]);
    expect(idsOf(discovery.devices)).toEqual(['gpu:0', 'host']);
  });

  it('shows simulated GPUs beside the real host', async () => {
    const { devices } = await discover({
      simulate: { scenario: 'leak', gpus: 2, totalBytes: 8 * GiB },
    });
    expect(devices.map(({ info }) => [info.id, info.provenance])).toEqual([
      ['gpu:0', 'simulated'],
      ['gpu:1', 'simulated'],
      ['host', 'measured'],
    ]);
    expect(await devices[1]?.read()).toMatchObject({ totalBytes: 8 * GiB });
  });

  it('plays back a trace file', async () => {
    await using tree = await makeFakeTree({
      'trace.json': '{"capacity":100,"columns":["seconds","device_used"],"rows":[[0,40]]}',
    });
    const { devices } = await discover({ simulate: { trace: join(tree.folder, 'trace.json') } });
    expect(await devices[0]?.read()).toMatchObject({ totalBytes: 100, usedBytes: 40 });
  });

  it('throws one clear error when a simulation cannot be made', async () => {
    await expect(discoverDevices({ simulate: { scenario: 'storm' } })).rejects.toThrow(Failure);
    await expect(discoverDevices({ simulate: { trace: '/nowhere.json' } })).rejects.toThrow(
      /nowhere/,
    );
  });

  it('turns a provider that breaks into a note, and goes on with the others', async () => {
    const [good, bad] = [new FakeProvider(), new FakeProvider()];
    good.devices = [device('gpu:0')];
    bad.broken = true;
    const discovery = await discover({ providers: [bad, good] });
    expect(idsOf(discovery.devices)).toEqual(['gpu:0']);
    expect(discovery.notes).toEqual(['Devices of nvml cannot be listed: it broke.']);
    bad.broken = false;
    bad.devices = [device('gpu:1')];
    expect(idsOf((await discovery.rescan()).appeared)).toEqual(['gpu:1']);
    expect(discovery.notes).toEqual([]);
  });
});

describe('rescan', () => {
  it('lists again only when something changed', async () => {
    const provider = new FakeProvider();
    provider.devices = [device('gpu:0')];
    const discovery = await discover({ providers: [provider] });
    expect(await discovery.rescan()).toEqual({ appeared: [], vanished: [] });
    expect(provider.listings).toBe(1);
  });

  it('reports what came and what went', async () => {
    const provider = new FakeProvider();
    const [first, second] = [device('gpu:0'), device('gpu:1')];
    provider.devices = [first];
    const discovery = await discover({ providers: [provider] });
    provider.devices = [second];
    provider.notes = ['gpu:0 fell off the bus.'];
    expect(await discovery.rescan()).toEqual({ appeared: [second], vanished: [first] });
    expect(discovery.devices).toEqual([second]);
    expect(discovery.notes).toEqual(['gpu:0 fell off the bus.']);
  });

  it('reports the devices of a provider that breaks as gone', async () => {
    const provider = new FakeProvider();
    provider.devices = [device('gpu:0')];
    const discovery = await discover({ providers: [provider] });
    provider.broken = true;
    expect(idsOf((await discovery.rescan()).vanished)).toEqual(['gpu:0']);
  });

  it('answers callers that come at the same time with one scan', async () => {
    const provider = new FakeProvider();
    const discovery = await discover({ providers: [provider] });
    provider.devices = [device('gpu:0')];
    const [one, other] = await Promise.all([discovery.rescan(), discovery.rescan()]);
    expect(other).toBe(one);
    expect(provider.listings).toBe(2);
  });

  it('does nothing once closed, and closes each provider once', async () => {
    const provider = new FakeProvider();
    const discovery = await discover({ providers: [provider] });
    discovery.close();
    discovery.close();
    provider.devices = [device('gpu:0')];
    expect(await discovery.rescan()).toEqual({ appeared: [], vanished: [] });
    expect(provider.closings).toBe(1);
  });
});
