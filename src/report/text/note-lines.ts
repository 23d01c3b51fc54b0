import { wrapText } from './wrap-text.js';

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
