import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import {
  addParallelOptions,
  optionWording,
  parallelRequest,
  refuseForProgram,
} from './workload-options.js';

describe('refuseForProgram', () => {
  const taken = new Set(['gpu']);

  it('takes what is for programs', () => {
    const given = { gpu: 'h100', batch: undefined };
    expect(() => refuseForProgram(given, taken)).not.toThrow();
  });

  it.each([
    [{ batch: 8 }, '--batch'],
    [{ lowMemory: true }, '--low-memory'],
    [{ reshard: false }, '--no-reshard'],
    [{ origParams: false }, '--no-orig-params'],
  ])('refuses %o by the name that was typed', (given, option) => {
    expect(() => refuseForProgram(given, taken)).toThrow(option);
  });
});

const given = (...words: string[]) =>
  addParallelOptions(new Command()).parse(words, { from: 'user' }).opts();

describe('options of several GPUs', () => {
  it('that were not given are not there, for those who refuse what they do not know', () => {
    expect(given()).toEqual({});
    expect(parallelRequest(given())).toEqual({});
  });

  it('can be turned off', () => {
    const off = given('--no-reshard', '--no-orig-params');
    expect(parallelRequest(off)).toEqual({ reshard: false, origParams: false });
  });

  it('take one number of GPUs, or a range whose counts double', () => {
    expect(given('--gpus', '8')['gpus']).toBe(8);
    expect(given('--gpus', '2..12')['gpus']).toEqual([2, 4, 8, 12]);
    for (const wrong of ['8..2', '1..8', '2..', '..8', '2..x', '0', '-2..4']) {
      expect(() => given(`--gpus=${wrong}`)).toThrow('--gpus');
    }
  });
});

it('names options as they are typed', () => {
  const { name, example } = optionWording;
  expect(name('seq')).toBe('--seq');
  expect(name('maxBatch')).toBe('--max-batch');
  expect(example('memoryBytes', 24 * GiB)).toBe('--memory 24GiB');
  expect(example('args', { batch: '8' })).toBe('--arg batch=8');
  expect(example('type', 'cnn')).toBe('--type cnn');
  expect(example('seq', 160_000)).toBe('--seq 160000');
});
