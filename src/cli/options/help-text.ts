import { wrapText } from '../../report/text/wrap-text.js';

/** Longer lines are hard to read, however wide the terminal is. */
const widest = 100;

/**
 * Help as it is printed: paragraphs are wrapped to the terminal. Indented lines (options, which are
 * wrapped already, and examples, which people copy) stay as they are.
 *
 * @example
 * wrapHelp('It watches\nmemory.\n\n  plimsoll monitor\n', 80); // 'It watches memory.\n\n  plimsoll monitor\n'
 */
export function wrapHelp(text: string, columns: number): string {
  const width = Math.min(columns, widest);
  const blocks: string[] = [];
  for (const line of text.split('\n')) {
    const before = blocks.at(-1) ?? '';
    const goesOn = isProse(line) && isProse(before) && !before.endsWith(':');
    if (goesOn) blocks[blocks.length - 1] = `${before} ${line}`;
    else blocks.push(line);
  }
  return blocks.flatMap((block) => (isProse(block) ? wrapText(block, width) : [block])).join('\n');
}

function isProse(line: string): boolean {
  return /^\S/.test(line);
}
