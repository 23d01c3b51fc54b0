import { describe, expect, it } from 'vitest';
import { environmentArgument, jobEnvironment } from './submit-request.js';

const here = {
  PATH: '/bin',
  VIRTUAL_ENV: '/venv',
  LC_ALL: 'C.UTF-8',
  AWS_SECRET_ACCESS_KEY: 'secret',
  CUDA_VISIBLE_DEVICES: '3',
  PLIMSOLL_TOKEN: 'token',
  SEED: '7',
};

describe('jobEnvironment', () => {
  it('sends the basics and nothing that was not asked for', () => {
    expect(jobEnvironment(here, [])).toEqual({
      PATH: '/bin',
      VIRTUAL_ENV: '/venv',
      LC_ALL: 'C.UTF-8',
    });
  });

  it('sends what was named, with the value from here or the one given', () => {
    const named = ['SEED', 'PATH=/other', 'URL=a=b', 'EMPTY='];
    expect(jobEnvironment(here, named)).toMatchObject({
      SEED: '7',
      PATH: '/other',
      URL: 'a=b',
      EMPTY: '',
    });
    expect(() => jobEnvironment(here, ['NOWHERE'])).toThrow('--env names NOWHERE');
  });
});

describe('environmentArgument', () => {
  it('collects names, and refuses what is none', () => {
    expect(environmentArgument('A=1', environmentArgument('B'))).toEqual(['B', 'A=1']);
    for (const text of ['', '=', '1A=2', 'a b=c']) {
      expect(() => environmentArgument(text)).toThrow(`--env cannot be "${text}"`);
    }
  });
});
