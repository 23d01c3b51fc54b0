import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { styledLine } from './job-log.js';

const esc = '\u001b';

describe('a line of a terminal', () => {
  it('keeps its colours and loses its control sequences', () => {
    expect(
      styledLine(`a${esc}[1;31mb${esc}[22mc${esc}[0md${esc}[2Ke${esc}]0;title\u0007f`),
    ).toEqual([
      { text: 'a', look: '' },
      { text: 'b', look: 'red bold' },
      { text: 'c', look: 'red' },
      { text: 'd', look: '' },
      { text: 'e', look: '' },
      { text: 'f', look: '' },
    ]);
  });

  it('passes over colours of 256 and of true colour', () => {
    expect(styledLine(`${esc}[38;5;196mx${esc}[48;2;1;31;3my${esc}[38;2;1;2;31;92mz`)).toEqual([
      { text: 'x', look: '' },
      { text: 'y', look: '' },
      { text: 'z', look: 'green' },
    ]);
  });

  it('never lets an escape through, whatever comes', () => {
    const piece = fc.constantFrom(esc, '[', 'm', '3', '1', ';', ']', '\u0007', 'x', 'K', '\u0000');
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const shown = styledLine(pieces.join(''))
          .map(({ text }) => text)
          .join('');
        expect(shown).not.toMatch(/[^\P{Cc}\t]/u);
      }),
    );
  });
});
