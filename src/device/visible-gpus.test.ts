import { describe, expect, it } from 'vitest';
import type { Device } from './types.js';
import { visibleGpus } from './visible-gpus.js';

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
const devices = [
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
    expect(visibleGpus(devices, variable).map(({ info }) => info.id)).toEqual(ids);
  });
});
