import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import type { Device, DeviceInfo } from './device.js';
import { GpuNumbers, selectDevices, visibleGpus } from './select-devices.js';

function named(id: string, uuid = 'unknown'): { readonly info: DeviceInfo } {
  return {
    info: {
      id,
      kind: id === 'host' ? 'host' : 'gpu',
      name: id,
      source: 'nvml',
      provenance: 'measured',
      uuid,
      driver: 'unknown',
    },
  };
}

const devices = [
  named('gpu:0', 'GPU-aa'),
  named('gpu:1/mig:0', 'MIG-bb'),
  named('gpu:1/mig:2', 'MIG-cc'),
  named('gpu:10', 'GPU-dd'),
  named('host'),
];

describe('selectDevices', () => {
  it.each([
    [['0'], ['gpu:0']],
    [['gpu:0'], ['gpu:0']],
    [['10'], ['gpu:10']],
    [['1/mig:2'], ['gpu:1/mig:2']],
    [['gpu:1/mig:0'], ['gpu:1/mig:0']],
    [['1'], ['gpu:1/mig:0', 'gpu:1/mig:2']],
    [['host'], ['host']],
    [['gpu-AA'], ['gpu:0']],
    [['MIG-cc'], ['gpu:1/mig:2']],
    [['gpus'], ['gpu:0', 'gpu:1/mig:0', 'gpu:1/mig:2', 'gpu:10']],
    [['all'], ['gpu:0', 'gpu:1/mig:0', 'gpu:1/mig:2', 'gpu:10', 'host']],
    [[], ['gpu:0', 'gpu:1/mig:0', 'gpu:1/mig:2', 'gpu:10', 'host']],
    [
      ['host', '0', 'gpu:0'],
      ['host', 'gpu:0'],
    ],
  ])('%j means %j', (wanted, ids) => {
    expect(selectDevices(devices, wanted).map(({ info }) => info.id)).toEqual(ids);
  });

  it.each(['7', 'gpu:7', 'gpu:1/mig:1', 'cpu', 'unknown', '', '-1'])(
    'says what there is when asked for "%s"',
    (name) => {
      expect(() => selectDevices(devices, [name])).toThrow(Failure);
      expect(() => selectDevices(devices, [name])).toThrow(/gpu:0, gpu:1\/mig:0, .*host/);
    },
  );

  it('has no GPUs to give where there is only a host', () => {
    expect(() => selectDevices([named('host')], ['gpus'])).toThrow(/this machine has host/);
  });
});

describe('GpuNumbers', () => {
  it('gives the wished number, else the first that is free, and never another later', () => {
    const numbers = new GpuNumbers();
    expect(numbers.numberOf('b', 1)).toBe(1);
    expect(numbers.numberOf('amd')).toBe(0);
    expect(numbers.numberOf('c', 1)).toBe(2);
    expect(numbers.numberOf('b', 5)).toBe(1);
    expect(numbers.numberOf('amd')).toBe(0);
  });
});

function device(id: string, uuid: string): Device {
  const kind = id === 'host' ? 'host' : 'gpu';
  return {
    info: {
      id,
      uuid,
      kind,
      name: id,
      source: 'simulated',
      provenance: 'simulated',
      driver: 'unknown',
    },
    read: () => {
      throw new Error('Nothing is read here.');
    },
    processes: async () => [],
  };
}
const devicesOfVisibleGpus = [
  device('gpu:0', 'GPU-aa11'),
  device('gpu:1', 'GPU-bb22'),
  device('gpu:2', 'unknown'),
  device('host', 'unknown'),
];

describe('the GPUs that CUDA_VISIBLE_DEVICES leaves', () => {
  it.each([
    [undefined, ['gpu:0', 'gpu:1', 'gpu:2']],
    ['', []],
    ['-1', []],
    ['1', ['gpu:1']],
    ['2,0', ['gpu:2', 'gpu:0']],
    ['0,0', ['gpu:0']],
    ['GPU-bb', ['gpu:1']],
    ['1,7,0', ['gpu:1']],
    ['GPU-unknown', []],
    ['MIG-1234', ['gpu:0', 'gpu:1', 'gpu:2']],
  ])('%s', (variable, ids) => {
    expect(visibleGpus(devicesOfVisibleGpus, variable).map(({ info }) => info.id)).toEqual(ids);
  });
});
