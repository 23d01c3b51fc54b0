import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Refusal } from '../../api/refusal.js';
import { inFormWords, joinCommand, problemWords, splitCommand } from './form-values.js';
import { draftLike, emptySubmit, fieldOf, readSubmit, workloadOfDraft } from './submit-draft.js';

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
      batch: '32',
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
        batch: 32,
        env: { A: '1', B: 'x=y' },
        workload: { model: '/m', mode: 'train', batch: 32, seq: 512, checkpointing: false },
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

  it('asks what is assumed beside a model only where there is one', () => {
    expect(workloadOfDraft(emptySubmit)).toBeUndefined();
    const workload = { model: 'gpt2', mode: 'train', batch: 8 };
    expect(workloadOfDraft({ ...emptySubmit, model: 'gpt2', batch: '8' })).toEqual(workload);
  });

  it.each([
    ['bad-field', 'The field seq is "x".', 'The server does not take this. It takes 1 to 9.'],
    [
      'no-such-folder',
      'No such folder.',
      'No such folder. Name another folder, or leave the field empty.',
    ],
    ['queue-full', 'It is full.', 'It is full. It takes 1 to 9.'],
  ])('tells the refusal %s in its own words', (code, fact, words) => {
    const refusal = new Refusal(400, { code, fact, next: 'It takes 1 to 9.' });
    expect(problemWords(refusal)).toBe(words);
    expect(inFormWords(refusal)).toMatchObject({ status: 400, code, fact });
  });

  it('is filled with all that an earlier job was asked to be, and sends the same again', () => {
    const request = {
      command: ['python', 'train it.py', '--batch-size', '{batch_size}'],
      name: 'night run',
      workload: {
        model: '/models/gpt2',
        mode: 'train',
        batch: 16,
        seq: 512,
        type: 'gpt2',
        precision: 'bf16',
        checkpointing: false,
        lora: 8,
      },
      batch: 16,
      priority: 7,
      gpus: 2,
      timeoutSeconds: 5400,
      cwd: '/srv',
      env: { SEED: '1', KEY: 'two\nlines' },
    };
    expect(readSubmit(draftLike(request), request)).toEqual({ request });
    expect(draftLike(request)).toMatchObject({ model: '/models/gpt2', batch: '16', env: 'SEED=1' });
  });

  it.each([
    { command: ['true'], memoryBytes: 6 * 1024 ** 3 },
    { command: ['true'], workload: { script: '/srv/train.py', args: { layers: '2' } } },
    { command: ['true', '{batch_size}'], batch: 4, env: { A: '=b=' } },
  ])('sends %j again as it was', (request) => {
    expect(readSubmit(draftLike(request), request)).toEqual({ request });
  });

  it.each([
    ['memoryBytes', 'memory'],
    ['timeoutSeconds', 'timeout'],
    ['workload.batch', 'batch'],
    ['workload.zzz', 'model'],
    ['workload', 'model'],
    ['command', 'command'],
    ['command.3', 'command'],
    ['env.PATH', 'env'],
    ['batch', 'batch'],
    ['zzz', undefined],
    [undefined, undefined],
  ])('shows an error about %s at %s, whatever its words are', (field, shown) => {
    expect(fieldOf({ field })).toBe(shown);
  });
});

describe('a command line', () => {
  it.each([
    ['python train.py', ['python', 'train.py']],
    ['a "b c" \'d e\'', ['a', 'b c', 'd e']],
    ['a\\ b', ['a b']],
    ['"say \\"hi\\" $x"', ['say "hi" $x']],
    ["'no \\n change'", ['no \\n change']],
    ['python \\\n  train.py', ['python', 'train.py']],
    ['x ""', ['x', '']],
    ['--a="b c"', ['--a=b c']],
  ])('%s', (line, words) => {
    expect(splitCommand(line)).toEqual({ words });
  });

  it('says what is wrong', () => {
    expect(splitCommand('   ')).toEqual({ problem: 'Type what to run.' });
    expect(splitCommand('echo "open')).toEqual({ problem: 'A quote (") is not closed.' });
  });

  it('reads back whatever was written', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 1 }), (words) => {
        expect(splitCommand(joinCommand(words))).toEqual({ words });
      }),
    );
  });
});
