import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { GiB } from '../../units/bytes.js';
import { shellWords } from '../../units/words.js';
import { outOfTime, readPackList, splitCommand } from './pack-list.js';

describe('a list of jobs', () => {
  it('has one command in each line, with options before --', () => {
    const text = `# first\n\n--memory 6GiB --gpus=2 --batch 8 --name "my job" -- python 'a b.py' --x\npython c.py -- d`;
    expect(readPackList(text, 'jobs.txt')).toEqual([
      {
        line: 3,
        text: `--memory 6GiB --gpus=2 --batch 8 --name "my job" -- python 'a b.py' --x`,
        command: ['python', 'a b.py', '--x'],
        memoryBytes: 6 * GiB,
        gpus: 2,
        batch: 8,
        name: 'my job',
      },
      { line: 4, text: 'python c.py -- d', command: ['python', 'c.py', '--', 'd'] },
    ]);
  });

  it.each([
    ['', 'has no commands'],
    ['# nothing', 'has no commands'],
    ['--memory 6GiB', 'there is no -- after its options'],
    ['--memory 6GiB --', 'it has no command'],
    ['--memory lots -- a', '"lots" is not a size'],
    ['--gpus x -- a', 'is not a whole number'],
    ['--color red -- a', '--color is not known here'],
    ["echo 'open", 'a quote is not closed'],
  ])('%s: %s', (text, why) => {
    expect(() => readPackList(text, 'jobs.txt')).toThrow(why);
  });

  it('splits what a shell would put together again', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1 }), (words) => {
        const clean = words.map((word) => word.replaceAll('\0', ''));
        expect(splitCommand(shellWords(clean))).toEqual(clean);
      }),
    );
  });

  it('answers jobs or a Failure, whatever is in the file', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          for (const { command } of readPackList(text, 'f'))
            expect(command.length).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});

describe('what would not end in time', () => {
  const waiting = [
    { id: 'short', expectedSeconds: 10 },
    { id: 'long', expectedSeconds: 1000 },
    { id: 'new', expectedSeconds: 'unknown' as const },
  ];

  it('is not started', () => {
    expect(outOfTime(waiting, 'unknown', 'unknown')).toEqual([]);
    expect(outOfTime(waiting, 2000, 'unknown')).toEqual([]);
    expect(outOfTime(waiting, 500, 'unknown')).toEqual(['long']);
    expect(outOfTime(waiting, 500, 600)).toEqual(['long', 'new']);
    expect(outOfTime(waiting, 60, 'unknown')).toEqual(['short', 'long', 'new']);
  });
});
