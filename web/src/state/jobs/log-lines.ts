/** Lines that are kept on the page; the file has them all. */
const linesKept = 4000;
/** A line without end must not fill the page. */
const longestLine = 4000;

/** What a job printed, as lines; a carriage return writes a line anew, as on a terminal. */
export interface LogLines {
  /** Whole lines, the oldest first. */
  readonly lines: readonly string[];
  /** How many lines were dropped before the first. */
  readonly dropped: number;
  /** The line that has no end yet. */
  readonly open: string;
}

export const noLines: LogLines = { lines: [], dropped: 0, open: '' };

export function withText(log: LogLines, text: string): LogLines {
  if (text === '') return log;
  const pieces = (log.open + text).split('\n');
  const open = cut(pieces.pop() ?? '');
  const all = [...log.lines, ...pieces.map((piece) => lastWritten(cut(piece.replace(/\r$/, ''))))];
  const surplus = Math.max(0, all.length - linesKept);
  return { lines: surplus > 0 ? all.slice(surplus) : all, dropped: log.dropped + surplus, open };
}

/** The line that is still open, as a terminal would show it. */
export function openLine({ open }: LogLines): string {
  return lastWritten(open.replace(/\r$/, ''));
}

/** What stands after the last carriage return. */
function lastWritten(line: string): string {
  return line.slice(line.lastIndexOf('\r') + 1);
}

/** Of a line that is too long its end is kept: there a progress bar says where it is. */
function cut(line: string): string {
  return line.length > longestLine ? line.slice(-longestLine) : line;
}
