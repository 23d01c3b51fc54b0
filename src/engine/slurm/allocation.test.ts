import { describe, expect, it } from 'vitest';
import type { Device, MemoryReading } from '../../device/device.js';
import type { Discovery } from '../../device/discover.js';
import { GiB, MiB } from '../../units/bytes.js';
import { readAllocation, withinAllocation } from './allocation.js';

function device(id: string, totalBytes: number, freeBytes: number): Device {
  const kind = id === 'host' ? 'host' : 'gpu';
  const reading = {
    totalBytes,
    freeBytes,
    usedBytes: totalBytes - freeBytes,
    utilizationPercent: 0,
  };
  return {
    info: {
      id,
      kind,
      name: id,
      source: kind === 'host' ? 'host' : 'nvml',
      provenance: 'measured',
      uuid: 'unknown',
      driver: 'unknown',
    },
    read: (): MemoryReading => reading,
    processes: async () => [],
  };
}
const discovery: Discovery = {
  devices: [
    device('gpu:0', 80 * GiB, GiB),
    device('gpu:1', 80 * GiB, GiB),
    device('host', 100 * GiB, 50 * GiB),
  ],
  notes: [],
  rescan: async () => ({ appeared: [], vanished: [] }),
  close: () => {},
};
const within = (environment: Readonly<Record<string, string>>) =>
  withinAllocation(discovery, readAllocation(environment));

describe('inside a job of Slurm', () => {
  it('only what the job has is used', async () => {
    const { devices, notes } = within({
      SLURM_JOB_ID: '12',
      SLURM_JOB_GPUS: '1',
      CUDA_VISIBLE_DEVICES: '1',
      SLURM_MEM_PER_NODE: '4096',
    });
    expect(devices.map(({ info }) => info.id)).toEqual(['gpu:1', 'host']);
    expect(await devices[1]?.read()).toMatchObject({
      totalBytes: 4 * GiB,
      freeBytes: 4 * GiB,
      usedBytes: 0,
    });
    expect(notes).toEqual(['Inside job 12 of Slurm: only gpu:1, 4.0 GiB of the host are used.']);
  });

  it('without GPUs in the request those of the node are not touched', () => {
    const { devices } = within({ SLURM_JOB_ID: '12' });
    expect(devices.map(({ info }) => info.id)).toEqual(['host']);
  });

  it('memory by processor counts, and no limit is none', () => {
    const allocation = (change: Readonly<Record<string, string>>) =>
      readAllocation({ SLURM_JOB_ID: '1', ...change })?.memoryBytes;
    expect(allocation({ SLURM_MEM_PER_CPU: '100', SLURM_CPUS_ON_NODE: '4' })).toBe(400 * MiB);
    expect(allocation({ SLURM_MEM_PER_NODE: '0' })).toBe('none');
    expect(allocation({})).toBe('none');
  });

  it('outside of Slurm everything stays', () => {
    expect(within({})).toBe(discovery);
    expect(within({ SLURM_JOB_ID: 'x' })).toBe(discovery);
  });
});
