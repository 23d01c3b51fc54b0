import { describe, expect, it } from 'vitest';
import {
  checkClock,
  checkGpus,
  checkHome,
  checkHostLimit,
  checkNativeLibrary,
  checkNode,
  checkPython,
  checkSharedMemory,
  checkTorch,
  isHealthy,
} from './doctor.js';

const gib = 1024 ** 3;
const python = {
  program: 'python3',
  version: '3.11.7',
  torch: '2.11.0',
  transformers: '5.17.0',
  cuda: 'unknown',
} as const;

describe('each check', () => {
  it.each([
    ['node of today', checkNode('v22.1.0'), 'ok'],
    ['the oldest node', checkNode('v20.19.0'), 'ok'],
    ['node before that', checkNode('v20.18.9'), 'broken'],
    ['a library', checkNativeLibrary({ name: 'koffi', neededFor: 'x', problem: undefined }), 'ok'],
    [
      'a library for another platform',
      checkNativeLibrary({ name: 'koffi', neededFor: 'x', problem: 'wrong ELF class' }),
      'broken',
    ],
    ['a GPU', checkGpus({ names: ['NVIDIA H200'], notes: [], driver: '580.1' }), 'ok'],
    ['no GPU', checkGpus({ names: [], notes: [], driver: 'unknown' }), 'absent'],
    [
      'a driver that fails',
      checkGpus({ names: [], notes: ['NVML failed.'], driver: '580.1' }),
      'broken',
    ],
    [
      'one GPU of two',
      checkGpus({ names: ['A'], notes: ['gpu:1 is lost.'], driver: '580.1' }),
      'limited',
    ],
    ['a home', checkHome({ path: '/srv', problem: undefined, freeBytes: 2 * gib }), 'ok'],
    [
      'a home of unknown size',
      checkHome({ path: '/srv', problem: undefined, freeBytes: 'unknown' }),
      'ok',
    ],
    ['a full disk', checkHome({ path: '/srv', problem: undefined, freeBytes: gib - 1 }), 'limited'],
    [
      'a home of another user',
      checkHome({ path: '/srv', problem: 'EACCES', freeBytes: 'unknown' }),
      'broken',
    ],
    ['a cgroup', checkHostLimit({ version: 2 }), 'ok'],
    ['no cgroup', checkHostLimit({ problem: 'EACCES' }), 'limited'],
    ['shared memory', checkSharedMemory(gib), 'ok'],
    ['little shared memory', checkSharedMemory(64 * 1024 ** 2), 'limited'],
    ['no shared memory', checkSharedMemory('unknown'), 'absent'],
    ['Python', checkPython(python), 'ok'],
    ['an old Python', checkPython({ ...python, version: '3.8.20' }), 'limited'],
    [
      'no Python',
      checkPython({ program: 'python3', problem: 'there is no such program' }),
      'absent',
    ],
    ['torch', checkTorch(python, 0), 'ok'],
    ['torch that sees the GPU', checkTorch({ ...python, cuda: true }, 1), 'ok'],
    ['torch that does not', checkTorch({ ...python, cuda: false }, 1), 'limited'],
    ['old torch', checkTorch({ ...python, torch: '2.5.1+cu121' }, 0), 'limited'],
    ['no torch', checkTorch({ ...python, torch: 'unknown' }, 0), 'absent'],
    ['a clock', checkClock({ nowEpochMs: 2e12, installedEpochMs: 1e12 }), 'ok'],
    ['a clock that was reset', checkClock({ nowEpochMs: 0, installedEpochMs: 1e12 }), 'limited'],
  ])('%s', (_, check, state) => {
    expect(check?.state).toBe(state);
    // A finding without a way out does not help.
    expect(check?.next === undefined).toBe(state === 'ok');
  });

  it('says nothing about torch where there is no Python', () => {
    expect(checkTorch({ program: 'python3', problem: 'gone' }, 1)).toBeUndefined();
  });

  it('calls an installation unhealthy only when something needed is broken', () => {
    expect(isHealthy([checkNode('v20.19.0'), checkHostLimit({ problem: 'EACCES' })])).toBe(true);
    expect(isHealthy([checkNode('v18.0.0')])).toBe(false);
  });
});
