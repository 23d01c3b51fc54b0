/** A piece of a line with the look that the program asked for. */
export interface Styled {
  readonly text: string;
  /** `red`, `bold` ...: class names, separated by spaces. */
  readonly look: string;
}

const colours = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;

const escape = '\u001b';
const bell = '\u0007';
/** Styles (kept, in group 1), all other control sequences, titles, and stray controls. */
const sequences = new RegExp(
  [
    `${escape}\\[([\\d;]*)m`,
    `${escape}\\[[\\d;?]*[ -/]*[@-~]`,
    `${escape}\\][^${bell}${escape}]*(?:${bell}|${escape}\\\\)`,
    `${escape}.`,
    '[^\\P{Cc}\\t]',
  ].join('|'),
  'gu',
);

/** A line of a terminal as text with looks; whatever moves the cursor is left out. */
export function styledLine(line: string): readonly Styled[] {
  const pieces: Styled[] = [];
  let look: Look = {};
  let from = 0;
  const push = (to: number): void => {
    if (to > from) pieces.push({ text: line.slice(from, to), look: classes(look) });
  };
  for (const match of line.matchAll(sequences)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[1] !== undefined) look = styled(look, match[1]);
  }
  push(line.length);
  return pieces;
}

interface Look {
  readonly colour?: string | undefined;
  readonly bold?: boolean;
  readonly dim?: boolean;
}

function styled(look: Look, codes: string): Look {
  let next = look;
  const numbers = codes.split(';').map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next = { ...next, bold: true };
    else if (code === 2) next = { ...next, dim: true };
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code === 39) next = { ...next, colour: undefined };
    else if (code >= 30 && code <= 37) next = { ...next, colour: colours[code - 30] };
    else if (code >= 90 && code <= 97) next = { ...next, colour: colours[code - 90] };
    // Colours beyond the sixteen, and grounds, are not shown; their numbers are passed over.
    else if (code === 38 || code === 48) at += numbers[at + 1] === 2 ? 4 : 2;
  }
  return next;
}

function classes({ colour, bold = false, dim = false }: Look): string {
  return [colour, bold && 'bold', dim && 'dim'].filter(Boolean).join(' ');
}
