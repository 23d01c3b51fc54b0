import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noteLines } from './wrap-text.js';

describe('noteLines', () => {
  it('breaks between words, and keeps a long word whole', () => {
    expect(noteLines('It was not traced.', 12)).toEqual(['- It was not', '  traced.']);
    expect(noteLines('see models/llama/config.json now', 10)).toEqual([
      '- see',
      '  models/llama/config.json',
      '  now',
    ]);
    expect(noteLines('', 10)).toEqual(['-']);
  });

  it('loses no word', () => {
    const word = fc.stringMatching(/^[a-z]{1,12}$/);
    fc.assert(
      fc.property(
        fc.array(word, { maxLength: 40 }),
        fc.integer({ min: 1, max: 60 }),
        (words, width) => {
          const lines = noteLines(words.join(' '), width);
          expect(
            lines
              .join(' ')
              .split(/[\s-]+/)
              .filter(Boolean),
          ).toEqual(words);
          const wide = lines.filter((line) => line.length > width);
          expect(wide.every((line) => line.trim().replace(/^- /, '').split(' ').length === 1)).toBe(
            true,
          );
        },
      ),
    );
  });
});
