import pico from 'picocolors';
import { cutText, textWidth, toAscii } from './text-width.js';

/** How text may look: colours, and characters beyond ASCII. */
export interface TextStyle {
  readonly colour: boolean;
  readonly unicode: boolean;
}

export type Paint = Exclude<keyof ReturnType<typeof pico.createColors>, 'isColorSupported'>;

/** A piece of a line, measured before it is painted. Its text must be clean. */
export interface Span {
  readonly text: string;
  readonly paint?: Paint | undefined;
}

export function span(text: string, paint?: Paint): Span {
  return { text, paint };
}

export function spansWidth(spans: readonly Span[]): number {
  return spans.reduce((sum, { text }) => sum + textWidth(text), 0);
}

/** Two groups at the ends of a line; the right one goes when both do not fit. */
export function spread(left: readonly Span[], right: readonly Span[], columns: number): Span[] {
  const gap = columns - spansWidth(left) - spansWidth(right);
  return gap < 2 ? [...left] : [...left, span(' '.repeat(gap)), ...right];
}

/** A line as a terminal takes it, never wider than `columns`. */
export function paintLine(spans: readonly Span[], columns: number, style: TextStyle): string {
  const colours = pico.createColors(style.colour);
  const mark = style.unicode ? '…' : '~';
  let left = columns;
  let line = '';
  for (const { text, paint } of spans) {
    const plain = style.unicode ? text : toAscii(text);
    const cut = cutText(plain, left, mark);
    if (cut === '' && plain !== '') break;
    line += paint ? colours[paint](cut) : cut;
    left -= textWidth(cut);
    if (cut !== plain) break;
  }
  return line;
}
