import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cleanText, cutText, fitText, noteLines, textWidth, toAscii } from './text-width.js';

describe('cleanText', () => {
  it('removes escape sequences, line breaks and direction marks', () => {
    expect(cleanText('evil\u001B[2J\u009B31m\u0007')).toBe('evil[2J31m');
    expect(cleanText('two\nlines\r\u2028')).toBe('two lines ');
    expect(cleanText('abc\u202Egpj.exe')).toBe('abcgpj.exe');
  });

  it('leaves nothing that a terminal would act on', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(cleanText(text)).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
      }),
    );
  });

  it('keeps ordinary names', () => {
    expect(cleanText('python train.py --größe 3 模型')).toBe('python train.py --größe 3 模型');
  });
});

describe('textWidth', () => {
  it.each([
    ['python', 6],
    ['模型', 4],
    ['한글', 4],
    ['ｆｕｌｌ', 8],
    ['e\u0301', 1],
    ['🚀', 2],
    ['▌┃⠿…', 4],
    ['', 0],
  ])('%s takes %i cells', (text, cells) => {
    expect(textWidth(text)).toBe(cells);
  });
});

describe('cutText and fitText', () => {
  it('cuts before a wide character that does not fit', () => {
    expect(cutText('ab模型', 4)).toBe('ab…');
    expect(cutText('ab模型', 6)).toBe('ab模型');
    expect(cutText('abc', 0)).toBe('');
  });

  it('never exceeds the cells, and fills them exactly', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.nat(30), (text, cells) => {
        const clean = cleanText(text);
        expect(textWidth(cutText(clean, cells))).toBeLessThanOrEqual(cells);
        expect(textWidth(fitText(clean, cells))).toBe(cells);
      }),
    );
  });
});

describe('toAscii', () => {
  it('keeps letters and replaces the rest', () => {
    expect(toAscii('größe 模')).toBe('gro?e ?');
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(toAscii(text)).toMatch(/^[\x20-\x7e]*$/);
      }),
    );
  });
});

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
