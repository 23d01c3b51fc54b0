import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { checkGpusThere, readJobVariables } from './job-variables.js';

describe('readJobVariables', () => {
  it('understands what earlier tools are set up with', () => {
    expect(
      readJobVariables({
        USE_GPU: 'true',
        GPU_DEVICE: '0',
        MAX_CONCURRENT_JOBS: '2',
        JOB_TIMEOUT: '3600',
        SAFETY_MARGIN_MB: '1000',
      }),
    ).toEqual({
      useGpus: true,
      devices: ['gpu:0'],
      maxRunning: 2,
      waitTimeoutSeconds: 3600,
      marginBytes: 1_048_576_000,
    });
    expect(
      readJobVariables({ GPU_DEVICE: '0, gpu:2,0', USE_GPU: 'No', JOB_TIMEOUT: '5m' }),
    ).toEqual({
      devices: ['gpu:0', 'gpu:2'],
      useGpus: false,
      waitTimeoutSeconds: 300,
    });
  });

  it('leaves out what is not set', () => {
    expect(readJobVariables({ GPU_DEVICE: '', JOB_TIMEOUT: '  ' })).toEqual({});
  });

  it.each([
    ['USE_GPU', 'maybe'],
    ['GPU_DEVICE', 'cuda'],
    ['GPU_DEVICE', ','],
    ['GPU_DEVICE', '-1'],
    ['MAX_CONCURRENT_JOBS', '0'],
    ['MAX_CONCURRENT_JOBS', '1.5'],
    ['JOB_TIMEOUT', '0'],
    ['JOB_TIMEOUT', 'soon'],
    ['SAFETY_MARGIN_MB', '-5'],
    ['SAFETY_MARGIN_MB', '1GB'],
  ])('refuses %s=%s and names it', (name, value) => {
    expect(() => readJobVariables({ [name]: value })).toThrow(
      expect.objectContaining({
        code: 'bad-variable',
        fact: `The variable ${name} is "${value}".`,
      }),
    );
  });

  it('answers or fails clearly, whatever is set', () => {
    const names = [
      'USE_GPU',
      'GPU_DEVICE',
      'MAX_CONCURRENT_JOBS',
      'JOB_TIMEOUT',
      'SAFETY_MARGIN_MB',
    ];
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.string(), (name, value) => {
        try {
          readJobVariables({ [name]: value });
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});

describe('checkGpusThere', () => {
  it.each([
    [
      { devices: ['gpu:0', 'gpu:7'] },
      ['gpu:0'],
      'GPU_DEVICE names gpu:7; on this machine there is gpu:0.',
    ],
    [{ devices: ['gpu:7'] }, [], 'GPU_DEVICE names gpu:7; on this machine no GPU was found.'],
    [{ useGpus: true }, [], 'USE_GPU asks for GPUs; on this machine no GPU was found.'],
  ])('refuses %j with %j', (variables, gpus, fact) => {
    expect(() => checkGpusThere(variables, gpus)).toThrow(fact);
  });

  it.each([
    [{}, []],
    [{ useGpus: false, devices: ['gpu:7'] }, []],
    [{ useGpus: true, devices: ['gpu:1'] }, ['gpu:0', 'gpu:1']],
  ])('takes %j with %j', (variables, gpus) => {
    expect(() => checkGpusThere(variables, gpus)).not.toThrow();
  });
});
