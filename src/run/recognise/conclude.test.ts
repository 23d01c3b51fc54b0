import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import type { OutOfMemory } from '../types.js';
import { concludeOutOfMemory, type Evidence } from './conclude.js';
import { recogniseLine } from './recognise.js';

const evidence: Evidence = {
  exitCode: 1,
  killsInLimit: 0,
  killedByKernel: false,
  limit: { bytes: GiB, by: 'cgroup-v1', why: '' },
  reported: undefined,
  read: undefined,
};
const read = recogniseLine('MemoryError');

describe('concludeOutOfMemory', () => {
  it('is none for a program that succeeded, whatever it printed', () => {
    expect(concludeOutOfMemory({ ...evidence, exitCode: 0, read, killsInLimit: 1 })).toBeNull();
  });

  it('takes a kill by hand for none, and one by a counter for one', () => {
    expect(concludeOutOfMemory({ ...evidence, exitCode: 137 })).toBeNull();
    expect(concludeOutOfMemory({ ...evidence, exitCode: 137, killsInLimit: 1 })).toMatchObject({
      kind: 'killed-at-limit',
      totalBytes: GiB,
      message: 'The kernel killed a process at the limit of 1.0 GiB.',
    });
    expect(concludeOutOfMemory({ ...evidence, exitCode: 137, killedByKernel: true })?.kind).toBe(
      'killed-by-kernel',
    );
  });

  const other = (kind: string): OutOfMemory => ({
    kind,
    askedBytes: 'unknown',
    freeBytes: 'unknown',
    totalBytes: 'unknown',
    message: '',
  });

  it.each<readonly [Partial<Evidence>, string | undefined]>([
    [{ exitCode: 1, killedByKernel: true }, undefined],
    [{ exitCode: 137, killedByKernel: 'unknown' }, undefined],
    [{ exitCode: 137, killsInLimit: 'unknown', killedByKernel: true }, 'killed-by-kernel'],
    [{ exitCode: 137, killsInLimit: 1, killedByKernel: true }, 'killed-at-limit'],
    [{ suspected: read }, undefined],
    [{ suspected: read, memoryWasShort: true }, 'python'],
    [{ read: other('node'), suspected: read, memoryWasShort: true }, 'node'],
    [{ reported: other('mps'), killsInLimit: 1 }, 'mps'],
  ])('of %o concludes %s', (parts, kind) => {
    const found = concludeOutOfMemory({ ...evidence, ...parts });
    expect(found?.kind).toBe(kind);
  });

  it('says how many were killed, and at which limit where there is one', () => {
    const limit = { bytes: 'none', by: 'none', why: '' } as const;
    expect(concludeOutOfMemory({ ...evidence, killsInLimit: 2, limit })).toMatchObject({
      totalBytes: 'unknown',
      freeBytes: 0,
      message: expect.stringContaining('killed 2 processes'),
    });
  });

  it('counts a killed worker though the program itself ended with an error', () => {
    expect(concludeOutOfMemory({ ...evidence, exitCode: 1, killsInLimit: 2 })?.kind).toBe(
      'killed-at-limit',
    );
  });

  it('believes the SDK before the output, and the output where there is nothing else', () => {
    const reported = recogniseLine('RuntimeError: CUDA error: out of memory');
    expect(concludeOutOfMemory({ ...evidence, read, reported })?.kind).toBe('cuda-driver');
    expect(concludeOutOfMemory({ ...evidence, read })?.kind).toBe('python');
    expect(concludeOutOfMemory({ ...evidence, exitCode: 'unknown', read })?.kind).toBe('python');
    expect(concludeOutOfMemory(evidence)).toBeNull();
  });
});
