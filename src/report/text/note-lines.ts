import { cleanText, textWidth } from './text-width.js';

/** Much longer than any note we write; what comes from outside ends there. */
const mostWords = 400;

/**
 * A note as lines of a list, broken between words so that nothing is cut off. A word wider than the
 * line (a path) stays whole.
 *
 * @example
 * noteLines('It was not traced.', 12); // ['- It was not', '  traced.']
 */
export function noteLines(note: string, columns: number): string[] {
  const words = note
    .split(/\s+/, mostWords)
    .map(cleanText)
    .filter((word) => word !== '');
  const lines: string[] = [];
  let line = '-';
  for (const word of words) {
    if (
      line.trim() !== '-' &&
      line.trim() !== '' &&
      textWidth(line) + 1 + textWidth(word) > columns
    ) {
      lines.push(line);
      line = ' ';
    }
    line += ` ${word}`;
  }
  lines.push(line);
  return lines;
}
