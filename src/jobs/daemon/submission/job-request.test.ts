import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../../failure.js';
import type { JobRequest } from '../types.js';
import { checkRequest, withOneBatch, withServerChanges } from './job-request.js';

const own = { folder: '/', environment: { PATH: process.env['PATH'] } };
const check = (parts: Partial<JobRequest>) => checkRequest({ command: ['true'], ...parts }, own);
const code = (parts: Partial<JobRequest>) => {
  try {
    check(parts);
    return 'fine';
  } catch (error) {
    return error instanceof Failure ? error.code : error;
  }
};

describe('checkRequest', () => {
  it('lets through what can run', () => {
    expect(code({})).toBe('fine');
    expect(code({ cwd: '/', env: { A: '' }, timeoutSeconds: 0.5, memoryBytes: 1 })).toBe('fine');
    expect(code({ command: ['true', '{batch_size}'], batch: 8 })).toBe('fine');
  });

  it('says at once what cannot', () => {
    expect(code({ command: [] })).toBe('bad-job');
    expect(code({ command: ['true', 'a\0b'] })).toBe('bad-job');
    expect(code({ command: ['no-such-program-here'] })).toBe('no-such-program');
    expect(code({ command: ['true', '{batch_size}'] })).toBe('unknown-batch-size');
    expect(code({ env: { PATH: '/nowhere' } })).toBe('no-such-program');
    expect(code({ cwd: '/no/such/folder' })).toBe('no-such-folder');
    expect(code({ cwd: 'relative' })).toBe('bad-job');
    expect(code({ env: { 'A=B': 'c' } })).toBe('bad-job');
    for (const memoryBytes of [0, -1, 0.5, Number.NaN]) {
      expect(code({ memoryBytes })).toBe('bad-job');
    }
    for (const timeoutSeconds of [0, -1, Number.NaN, 1e12]) {
      expect(code({ timeoutSeconds })).toBe('bad-job');
    }
    expect(code({ batch: 0 })).toBe('bad-job');
    expect(code({ submission: '' })).toBe('bad-job');
  });

  it('throws nothing but failures, whatever comes', () => {
    const request = fc.record(
      {
        command: fc.array(fc.string()),
        memoryBytes: fc.double(),
        timeoutSeconds: fc.double(),
        batch: fc.double(),
        cwd: fc.string(),
        env: fc.dictionary(fc.string(), fc.string()),
        submission: fc.string(),
      },
      { requiredKeys: ['command'] },
    );
    fc.assert(
      fc.property(request, (parts) => {
        expect(code(parts)).toBeTypeOf('string');
      }),
    );
  });
});

describe('withServerChanges', () => {
  const change = { name: 'NCCL_DEBUG', from: 'INFO', to: null, reason: '' } as const;
  const [mine, servers] = [
    { ...change, by: 'submit' } as const,
    { ...change, by: 'serve' } as const,
  ];

  it('adds what the job inherits, and not what it brings itself', () => {
    const asked = { command: ['a'], environmentChanges: [mine] };
    expect(withServerChanges(asked, [servers]).environmentChanges).toEqual([mine, servers]);
    const env = { NCCL_DEBUG: 'INFO' };
    expect(withServerChanges({ ...asked, env }, [servers]).environmentChanges).toEqual([mine]);
    expect(withServerChanges({ command: ['a'] }, [])).toEqual({ command: ['a'] });
  });
});

describe('withOneBatch', () => {
  const command = ['train'];
  const model = '/m/config.json';

  it('estimates with the batch that the program gets', () => {
    expect(withOneBatch({ command, batch: 32, workload: { model } })).toMatchObject({
      batch: 32,
      workload: { batch: 32 },
    });
    expect(withOneBatch({ command, workload: { model, batch: 8 } }).batch).toBe(8);
    expect(withOneBatch({ command, batch: 4, workload: { script: '/s.py' } }).workload).toEqual({
      script: '/s.py',
    });
  });

  it('refuses two that contradict each other', () => {
    expect(() => withOneBatch({ command, batch: 32, workload: { model, batch: 8 } })).toThrow(
      /batch of 32.*one of 8/,
    );
  });
});
