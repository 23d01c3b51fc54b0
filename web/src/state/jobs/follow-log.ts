import { useEffect, useRef, useState } from 'preact/hooks';
import { fetchLog } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';

/** Bytes of a long log that are read first: its end. */
const tailBytes = 256 * 1024;
const everyMs = 1000;

export interface FollowedLog {
  readonly lines: LogLines;
  /** Bytes before the first that was read. */
  readonly skipped: number;
  readonly refusal: Refusal | undefined;
}

/** A log as it grows, from its end on; `following` false leaves it as it is. */
export function useLog(
  id: string,
  bytes: number,
  growing: boolean,
  following: boolean,
): FollowedLog {
  const [log, setLog] = useState<FollowedLog>({ lines: noLines, skipped: 0, refusal: undefined });
  const place = useRef<{ next: number; decoder: TextDecoder } | undefined>(undefined);
  useEffect(() => {
    if (!following) return undefined;
    let left = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async (): Promise<void> => {
      try {
        // A decoder keeps half a letter until its other half comes.
        place.current ??= { next: Math.max(0, bytes - tailBytes), decoder: new TextDecoder() };
        const here = place.current;
        const from = here.next;
        const part = await fetchLog(id, from);
        if (left) return;
        here.next = part.next;
        const text = here.decoder.decode(part.bytes, { stream: true });
        const skipped = Math.max(0, bytes - tailBytes);
        setLog((before) => ({
          lines: withText(before.lines, text),
          skipped: Math.min(before.skipped === 0 ? skipped : before.skipped, skipped),
          refusal: undefined,
        }));
        const more = part.bytes.length > 0 && here.next < part.size;
        if (more) timer = setTimeout(() => void read(), 0);
        else if (growing) timer = setTimeout(() => void read(), everyMs);
      } catch (error) {
        if (left) return;
        setLog((before) => ({ ...before, refusal: asRefusal(error) }));
        if (growing) timer = setTimeout(() => void read(), everyMs * 3);
      }
    };
    void read();
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [id, growing, following]);
  return log;
}

/** Lines that are kept on the page; the file has them all. */
const linesKept = 4000;
/** A line without end must not fill the page. */
const longestLine = 4000;

/** A job's output as lines; a carriage return starts a line again, as on a terminal. */
interface LogLines {
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

/** Returns the text after the last carriage return. */
function lastWritten(line: string): string {
  return line.slice(line.lastIndexOf('\r') + 1);
}

/** Of a line that is too long its end is kept: there a progress bar says where it is. */
function cut(line: string): string {
  return line.length > longestLine ? line.slice(-longestLine) : line;
}
