/** What the codes of a terminal mean; those that are not here change nothing. */
const colours = {
  1: 'bold',
  2: 'dim',
  31: 'red',
  32: 'green',
  33: 'yellow',
  34: 'blue',
  35: 'magenta',
  36: 'cyan',
};
const endings = new Set(['0', '', '22', '39']);

/**
 * The lines that are left on a terminal, each with the time at which it first had text. A line that
 * was drawn over (`\r`, erase) has its last text.
 */
export function readTerminal(pieces) {
  const screen = { lines: [], spans: [], since: 0, colour: undefined, isReturned: false };
  let held = '';
  for (const { seconds, text } of pieces) {
    const parts = `${held}${text}`.split('\u001B');
    held = '';
    for (const [index, part] of parts.entries()) {
      const sequence = index === 0 ? undefined : /^\[[\d;?]*[A-Za-z]/.exec(part)?.[0];
      // A sequence may be cut in two between one piece and the next.
      if (index > 0 && sequence === undefined && index === parts.length - 1) held = `\u001B${part}`;
      else {
        if (sequence !== undefined) obey(screen, sequence);
        write(screen, part.slice(sequence?.length ?? 0), seconds);
      }
    }
  }
  if (screen.spans.length > 0) endLine(screen);
  return screen.lines;
}

function obey(screen, sequence) {
  if (sequence.endsWith('K') && screen.isReturned) screen.spans = [];
  if (!sequence.endsWith('m')) return;
  const code = sequence.slice(1, -1);
  screen.colour = endings.has(code) ? undefined : (colours[code] ?? screen.colour);
}

function write(screen, text, seconds) {
  for (const part of text.split(/(\r?\n|\r)/)) {
    if (part === '') continue;
    if (part === '\r') screen.isReturned = true;
    else if (part.endsWith('\n')) endLine(screen);
    else {
      if (screen.isReturned) screen.spans = [];
      screen.isReturned = false;
      if (screen.spans.length === 0) screen.since = seconds;
      screen.spans.push({ text: part, colour: screen.colour });
    }
  }
}

function endLine(screen) {
  screen.lines.push({ seconds: screen.since, spans: screen.spans });
  screen.spans = [];
  screen.isReturned = false;
}
