import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { hostShare, leastHostShare } from './host-share.js';

const node = { cpus: 128, memoryBytes: 2048 * GiB };
const job = { share: 1 / 8, gpus: 1, needBytes: 40 * GiB };

describe('what a job with GPUs asks of its host', () => {
  it('is as much of the node as of its GPUs, less what sites keep', () => {
    expect(hostShare(node, job)).toEqual({ memoryMebibytes: 230 * 1024 + 410 - 1, cpus: 14 });
    expect(hostShare(node, { ...job, share: 1, gpus: 8 })).toEqual({
      memoryMebibytes: Math.floor((0.9 * 2048 * GiB) / MiB),
      cpus: 115,
    });
  });

  it('is never less than the job needs by the rule, and never more than the node has', () => {
    const poor = { cpus: 128, memoryBytes: 64 * GiB };
    expect(hostShare(poor, job).memoryMebibytes).toBe((3 + 40 / 4) * 1024);
    const large = { share: 1 / 8, gpus: 1, needBytes: 640 * GiB };
    expect(hostShare(poor, large).memoryMebibytes).toBe(Math.floor(0.9 * 64 * 1024));
    expect(hostShare(poor, { ...job, needBytes: 'unknown' }).memoryMebibytes).toBe(7372);
  });

  it('is left to the site where it does not state what its nodes have', () => {
    expect(hostShare({ cpus: 1, memoryBytes: MiB }, job)).toEqual({
      memoryMebibytes: 'default',
      cpus: 'default',
    });
    expect(hostShare({ cpus: 'unknown', memoryBytes: 'unknown' }, job)).toEqual({
      memoryMebibytes: 'default',
      cpus: 'default',
    });
  });

  it('of nodes that differ is the least, so that each could take the job', () => {
    const small = hostShare({ cpus: 32, memoryBytes: 256 * GiB }, job);
    expect(leastHostShare([hostShare(node, job), small])).toEqual(small);
    const unstated = hostShare({ cpus: 32, memoryBytes: 'unknown' }, job);
    expect(leastHostShare([small, unstated])).toEqual({ memoryMebibytes: 'default', cpus: 3 });
    expect(leastHostShare([])).toEqual({ memoryMebibytes: 'default', cpus: 'default' });
  });
});
