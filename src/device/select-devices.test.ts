import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { selectDevices } from './select-devices.js';
import type { DeviceInfo } from './types.js';

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
