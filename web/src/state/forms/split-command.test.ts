import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinCommand, splitCommand } from './split-command.js';

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
