import pico from 'picocolors';
import type { Paint, Theme } from './charts/themes.js';
import { cutText, textWidth, toAscii } from './text-width.js';

/** How text may look: colours, which, and characters beyond ASCII. */
export interface TextStyle {
  readonly colour: boolean;
  readonly unicode: boolean;
  /** The terminal's own colours where this is left out. */
  readonly theme?: Theme;
}

/** Made once: a screen asks for them for every line that it draws. */
const colours = pico.createColors(true);

export type { Paint } from './charts/themes.js';

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
  const mark = style.unicode ? '…' : '~';
  let left = columns;
  let line = '';
  for (const { text, paint } of spans) {
    const plain = style.unicode ? text : toAscii(text);
    const cut = cutText(plain, left, mark);
    if (cut === '' && plain !== '') break;
    line += paint && style.colour ? painted(cut, paint, style.theme) : cut;
    left -= textWidth(cut);
    if (cut !== plain) break;
  }
  return line;
}

function painted(text: string, paint: Paint, theme: Theme | undefined): string {
  const code = theme?.[paint];
  return code === undefined ? colours[paint](text) : `\u001B[${code}m${text}\u001B[0m`;
}
