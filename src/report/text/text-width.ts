/** Most names: nothing in them needs a second look. */
const plainOnly = /^[\x20-\x7e]*$/;

/** No name on a screen needs more; a longer one only costs time. */
const longestText = 512;

/**
 * Text from outside made fit for one line of a terminal: no control characters (so no escape
 * sequences), no direction marks, no joiners whose width terminals disagree on.
 *
 * @example
 * cleanText('evil\u001b[2Jname'); // 'evil[2Jname'
 */
export function cleanText(text: string): string {
  if (plainOnly.test(text)) return text.slice(0, longestText);
  return text
    .slice(0, longestText)
    .replace(/[\t\n\r]/g, ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\uFE00-\uFE0F]/gu, '')
    .replace(/[\p{Cs}\p{Co}\p{Cn}]/gu, '\uFFFD')
    .replace(/\p{Zs}/gu, ' ');
}

/** For terminals that only know ASCII. */
export function toAscii(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^\x20-\x7e]/gu, '?');
}

/** Two cells each: East Asian wide and fullwidth blocks, as in Unicode's EastAsianWidth. */
const wideRanges: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2329, 0x232a],
  [0x2e80, 0x303e],
  [0x3041, 0x4dff],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18dff],
  [0x1aff0, 0x1b2ff],
  [0x1d300, 0x1d37f],
  [0x1f000, 0x1faff],
  [0x20000, 0x3fffd],
];

/** Cells that one character takes: 0 for combining marks, 2 for wide ones, else 1. */
function characterWidth(character: string): 0 | 1 | 2 {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x300) return 1;
  if (/^[\p{Mn}\p{Me}\u1160-\u11ff\ud7b0-\ud7ff]/u.test(character)) return 0;
  if (wideRanges.some(([from, to]) => code >= from && code <= to)) return 2;
  return /^\p{Emoji_Presentation}/u.test(character) ? 2 : 1;
}

/** Letters, and what bars, charts and boxes are drawn with: one cell each, told apart quickly. */
const narrowOnly = /^[\x20-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25fc\u2800-\u28ff]*$/;

/** Cells that clean text takes on a terminal. */
export function textWidth(text: string): number {
  if (narrowOnly.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += characterWidth(character);
  return width;
}

/**
 * The beginning of a text that fits, with a mark where it was cut.
 *
 * @example
 * cutText('python train.py', 8, '~'); // 'python ~'
 */
export function cutText(text: string, columns: number, mark = '…'): string {
  if (textWidth(text) <= columns) return text;
  const room = columns - textWidth(mark);
  if (room < 0) return '';
  let kept = '';
  let width = 0;
  for (const character of text) {
    width += characterWidth(character);
    if (width > room) break;
    kept += character;
  }
  return kept + mark;
}

/** Cut or filled with spaces to exactly this many cells. */
export function fitText(text: string, columns: number, mark = '…'): string {
  const cut = cutText(text, columns, mark);
  return cut + ' '.repeat(Math.max(0, columns - textWidth(cut)));
}

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
