import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KeyDecoder } from './key-decoder.js';

function keys(...pieces: readonly string[]): string[] {
  const decoder = new KeyDecoder();
  return [...pieces.flatMap((piece) => decoder.feed(piece)), ...decoder.flush()].map((input) =>
    input.kind === 'key' ? input.key : `${input.kind} ${input.column},${input.row}`,
  );
}

describe('KeyDecoder', () => {
  it('names letters, control keys and the keys that send a sequence', () => {
    expect(keys('qK?é模')).toEqual(['q', 'K', '?', 'é', '模']);
    expect(keys('\r\t \u007F\u0003\u001A\u0015')).toEqual([
      'enter',
      'tab',
      'space',
      'backspace',
      'ctrl-c',
      'ctrl-z',
      'ctrl-u',
    ]);
    expect(keys('\u001B[A\u001B[6~\u001BOH\u001BOP')).toEqual(['up', 'page-down', 'home', 'f1']);
  });

  it('tells Esc from a sequence that comes in pieces', () => {
    expect(keys('\u001B')).toEqual(['escape']);
    expect(keys('\u001B', '[', '5', '~')).toEqual(['page-up']);
    expect(keys('\u001Bq')).toEqual(['escape', 'q']);
    expect(keys('\u001B[12')).toEqual([]);
  });

  it('reads clicks and the wheel, from 0', () => {
    expect(keys('\u001B[<0;1;1M\u001B[<0;1;1m')).toEqual(['click 0,0']);
    expect(keys('\u001B[<64;300;100M\u001B[<65;2;3M')).toEqual([
      'wheel-up 299,99',
      'wheel-down 1,2',
    ]);
    expect(keys('\u001B[<2;5;5M')).toEqual([]);
  });

  it('takes anything, in any pieces, and loses no letter after it', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 12 })), (pieces) => {
        expect(keys(...pieces, '\u001B[A', 'q').at(-1)).toBe('q');
      }),
    );
  });
});
