import { describe, expect, it } from 'vitest';
import { madeJob } from '../made-for-tests.js';
import { draftLike, emptySubmit, fieldOf, readSubmit } from './submit-draft.js';

describe('the form of a new job', () => {
  it('becomes a request with only what was filled in', () => {
    expect(readSubmit({ ...emptySubmit, command: 'python train.py' })).toEqual({
      request: { command: ['python', 'train.py'] },
    });
  });

  it('reads units, and a model with how it is run', () => {
    const draft = {
      ...emptySubmit,
      command: 'python a.py {batch_size}',
      memory: '6GiB',
      timeout: '30m',
      gpus: '0',
      priority: '-5',
      batchSize: '32',
      env: 'A=1\nB=x=y\n',
      model: '/m',
      seq: '512',
      checkpointing: 'no',
    };
    expect(readSubmit(draft)).toEqual({
      request: {
        command: ['python', 'a.py', '{batch_size}'],
        memoryBytes: 6 * 1024 ** 3,
        timeoutSeconds: 1800,
        gpus: 0,
        priority: -5,
        batchSize: 32,
        env: { A: '1', B: 'x=y' },
        workload: { model: '/m', mode: 'train', seq: 512, checkpointing: false },
      },
    });
  });

  it('says at each field what is wrong with it', () => {
    const draft = {
      ...emptySubmit,
      command: '"',
      memory: 'lots',
      timeout: 'soon',
      gpus: '1.5',
      env: 'A',
    };
    const read = readSubmit(draft);
    expect(Object.keys('problems' in read ? read.problems : {}).toSorted()).toEqual([
      'command',
      'env',
      'gpus',
      'memory',
      'timeout',
    ]);
  });

  it('is filled with an earlier job', () => {
    const draft = draftLike(madeJob({ id: '3', command: ['a', 'b c'], gpus: 2, priority: 7 }));
    expect(draft).toMatchObject({ command: "a 'b c'", gpus: '2', priority: '7', cwd: '/srv' });
    expect(draft.memory).toBe(String(6 * 1024 ** 3));
  });

  it.each([
    ['bad-field', 'The field memoryBytes is -1.', 'memory'],
    ['bad-field', 'The field workload.batch is 0.', 'batch'],
    ['bad-field', 'The field workload.zzz is 0.', 'model'],
    ['bad-field', 'The field command is missing.', 'command'],
    ['no-such-folder', 'There is no folder /nowhere.', 'cwd'],
    ['no-such-program', 'There is no program "pyton".', 'command'],
    ['queue-full', 'The queue is full.', undefined],
  ])('puts %s, %s where it belongs', (code, fact, field) => {
    expect(fieldOf({ code, fact })).toBe(field);
  });
});
