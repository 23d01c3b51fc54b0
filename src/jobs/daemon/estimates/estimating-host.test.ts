import { expect, it } from 'vitest';
import { GiB } from '../../../units/bytes.js';
import { fakeDevice, memory } from '../../../watch/fake-device-for-tests.js';
import { estimatingHost } from './estimating-host.js';

it('has the cores of this machine, and the memory that the host device tells', async () => {
  const gpu = fakeDevice({ id: 'gpu:0', read: () => memory(0, 80 * GiB) });
  const host = fakeDevice({ id: 'host', kind: 'host', read: () => memory(0, 64 * GiB) });
  const found = await estimatingHost({ devices: [gpu, host] });
  expect(found.memoryBytes).toBe(64 * GiB);
  expect(found.cores).toBeGreaterThanOrEqual(1);
  expect((await estimatingHost({ devices: [gpu] })).memoryBytes).toBe('unknown');
});
