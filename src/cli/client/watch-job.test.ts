import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TerminalFilter } from './watch-job.js';

const filtered = (text: string): string => new TerminalFilter().take(text);

describe('what a job printed, on the terminal of a person', () => {
  it.each([
    'plain text, schön, 日本語\n',
    '\u001b[1;31mred\u001b[0m\n',
    '\r 50 %|#####     |\u001b[K',
    '\u001b[A\u001b[2K\r100 %',
    'a\tb\b\n',
  ])('stays as it is: %j', (text) => expect(filtered(text)).toBe(text));

  it.each([
    ['sets the clipboard', '\u001b]52;c;ZXZpbA==\u0007'],
    ['sets the clipboard, ended otherwise', '\u001b]52;c;ZXZpbA==\u001b\\'],
    ['sets the title', '\u001b]0;title\u0007'],
    ['asks for an answer', '\u001b[6n\u001b[c\u001b[>0q\u001bZ'],
    ['speaks to a device', '\u001bP$q"p\u001b\\'],
    ['switches the screen', '\u001b[?1049h'],
    ['clears the screen', '\u001b[2J\u001b[H\u001bc'],
    ['uses controls of eight bits', '\u009b\u009d\u009c'],
    ['rings', '\u0007'],
  ])('loses what %s', (_, text) => expect(filtered(`a${text}b`)).toBe('ab'));

  it('is the same in whatever pieces it comes', () => {
    const letters = fc.constantFrom(
      '\u001b',
      '[',
      ']',
      '5',
      ';',
      'm',
      'J',
      '\u0007',
      '\\',
      'x',
      '\n',
    );
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 40 }), fc.nat(40), (all, at) => {
        const text = all.join('');
        const filter = new TerminalFilter();
        expect(filter.take(text.slice(0, at)) + filter.take(text.slice(at))).toBe(filtered(text));
      }),
    );
  });

  it('holds no other sequence than those let through, whatever comes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const [plain = '', ...sequences] = filtered(text).split('\u001b');
        for (const sequence of sequences) expect(sequence).toMatch(/^\[[\d;]*[mKABCDG]/);
        const controls = [plain, ...sequences].join('').match(/\p{Cc}/gu) ?? [];
        expect(controls.filter((letter) => !'\t\n\r\b'.includes(letter))).toEqual([]);
      }),
    );
  });
});
