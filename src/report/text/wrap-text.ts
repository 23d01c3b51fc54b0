import { cleanText, textWidth } from './text-width.js';

/** Much longer than any text we write; what comes from outside ends there. */
const maxWords = 400;

/**
 * A text as lines no wider than `columns`, broken between words; `first` begins the first line and
 * `rest` the others. A word wider than the line (a path) stays whole.
 *
 * @example
 * wrapText('It was not traced.', 12, '- ', '  '); // ['- It was not', '  traced.']
 */
export function wrapText(text: string, columns: number, first = '', rest = first): string[] {
  const words = text
    .split(/\s+/, maxWords)
    .map(cleanText)
    .filter((word) => word !== '');
  const lines: string[] = [];
  let line = '';
  for (const word of words) {
    const begin = lines.length === 0 ? first : rest;
    if (line !== '' && textWidth(begin) + textWidth(line) + 1 + textWidth(word) > columns) {
      lines.push(begin + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  if (line !== '') lines.push((lines.length === 0 ? first : rest) + line);
  return lines;
}

/**
 * A note as lines of a list, broken between words so that nothing is cut off.
 *
 * @example
 * noteLines('It was not traced.', 12); // ['- It was not', '  traced.']
 */
export function noteLines(note: string, columns: number): string[] {
  const lines = wrapText(note, columns, '- ', '  ');
  return lines.length === 0 ? ['-'] : lines;
}
