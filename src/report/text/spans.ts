import pico from 'picocolors';
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

/** A colour or a weight, as the terminal's own palette names it. */
export type Paint = Exclude<keyof ReturnType<typeof pico.createColors>, 'isColorSupported'>;

export const themeNames = ['terminal', 'light', 'contrast', 'colour-blind', 'mono'] as const;
export type ThemeName = (typeof themeNames)[number];

/** For each colour that is asked for, what the terminal is told; those left out are its own. */
type Theme = Partial<Readonly<Record<Paint, string>>>;

/**
 * `terminal` uses the sixteen colours that a person has set in the terminal. `light` is for a white
 * background, `contrast` for projectors and tired eyes, `colour-blind` keeps apart what red and green
 * do not (blue, yellow, orange), `mono` has no hue at all.
 */
export const themes: Readonly<Record<ThemeName, Theme>> = {
  terminal: {},
  light: {
    dim: '38;5;242',
    cyan: '38;5;25',
    yellow: '38;5;94',
    red: '38;5;160',
    magenta: '38;5;90',
    green: '38;5;22',
  },
  contrast: {
    dim: '38;5;252',
    cyan: '1;38;5;51',
    yellow: '1;38;5;226',
    red: '1;38;5;231;48;5;124',
    magenta: '1;38;5;213',
    green: '1;38;5;46',
  },
  'colour-blind': {
    dim: '38;5;247',
    cyan: '38;5;39',
    yellow: '38;5;220',
    red: '1;38;5;208',
    magenta: '38;5;255',
    green: '38;5;75',
  },
  mono: { dim: '2', cyan: '0', yellow: '4', red: '1;4', magenta: '1', green: '0' },
};
