import { describe, expect, it } from 'vitest';
import { leakName } from './leak-names.js';

const facts = {
  pid: 4711,
  parent: 1,
  started: 5,
  user: 'ada',
  commandLine: '/usr/bin/python3 train.py --lr 1',
  script: 'train.py',
  container: 'docker 3f2a9c1b7d04',
  run: 'none',
  job: undefined,
};

describe('leakName', () => {
  it('names script, user, command line and container, and how to find the tensors', () => {
    expect(leakName(facts)).toMatchObject({
      user: 'ada',
      commandLine: '/usr/bin/python3 train.py --lr 1',
      script: 'train.py',
      container: 'docker 3f2a9c1b7d04',
      next: expect.stringMatching(
        /^pip install plimsoll, then in train\.py put .*plimsoll\.debugger/,
      ),
    });
    expect(leakName({ ...facts, run: 'run-7' }).next).toContain('in this program (run run-7)');
  });

  it('has another next step for what is no Python', () => {
    expect(
      leakName({ ...facts, commandLine: 'node server.js', script: 'server.js' }).next,
    ).toContain('heapsnapshot-signal');
    expect(leakName({ ...facts, commandLine: '/opt/sim/solver', script: 'none' }).next).toContain(
      'plimsoll monitor shows process 4711',
    );
  });
});
