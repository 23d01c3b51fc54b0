import { useEffect, useRef, useState } from 'preact/hooks';
import { hasEnded } from '../../../../src/jobs/types.js';
import { count } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { logAddress } from '../../api/client.js';
import type { JobView } from '../../api/types.js';
import { memo } from '../../parts/memo.js';
import { RefusalNote } from '../../parts/notes.js';
import { openLine, useLog } from '../../state/jobs/follow-log.js';
import { useStore } from '../../state/live/store.js';
import { notYours, who } from '../../state/page/who.js';

/** Lines that are drawn together: a new line draws one such piece, not all. */
const pieceLines = 100;

/** Shows the live output of a job, or the reason why it is hidden. */
export function JobLog({ job }: { job: JobView }) {
  const refused = useStore(who, (me) => notYours(me, job));
  if (refused === undefined) return <OwnLog job={job} />;
  return (
    <section aria-labelledby="log-title">
      <h2 id="log-title">Log</h2>
      <p class="nothing">{refused} Its log is for its owner and for admins.</p>
    </section>
  );
}

function OwnLog({ job }: { job: JobView }) {
  const [following, setFollowing] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const log = useLog(job.id, job.log.bytes, !hasEnded(job.state), following);
  const { lines, dropped } = log.lines;
  const open = openLine(log.lines);
  useEffect(() => {
    if (following && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [log, following]);
  const pieces: { readonly from: number; readonly lines: readonly string[] }[] = [];
  const shift = dropped % pieceLines;
  for (let at = -shift; at < lines.length; at += pieceLines) {
    pieces.push({ from: dropped + at, lines: lines.slice(Math.max(0, at), at + pieceLines) });
  }
  return (
    <section aria-labelledby="log-title">
      <div class="heading">
        <h2 id="log-title">Log</h2>
        <div class="actions">
          <button
            type="button"
            id="follow-log"
            aria-pressed={following}
            onClick={() => setFollowing(!following)}
          >
            {following ? 'Pause' : 'Follow'}
          </button>
          <a class="button" href={logAddress(job.id)} target="_blank" rel="noreferrer">
            As text
          </a>
        </div>
      </div>
      {(log.skipped > 0 || dropped > 0) && (
        <p class="soft">
          {log.skipped > 0 && `The first ${formatBytes(log.skipped)} are left out here. `}
          {dropped > 0 && `${count(dropped, 'older line')} left out here.`}
        </p>
      )}
      {log.refusal !== undefined && <RefusalNote refusal={log.refusal} />}
      {lines.length === 0 && open === '' ? (
        <p class="nothing">
          {job.startedAt === null ? 'It has not started.' : 'It printed nothing yet.'}
        </p>
      ) : (
        // A region that scrolls must be reachable with the keyboard.
        <pre
          class="log"
          ref={box}
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={`Log of job ${job.id}`}
        >
          {pieces.map((piece) => (
            <Piece key={piece.from} {...piece} />
          ))}
          {open}
        </pre>
      )}
    </section>
  );
}

const Piece = memo(
  ({ lines }: { from: number; lines: readonly string[] }) => (
    <span>
      {lines.map((line) => (
        <>
          {styledLine(line).map(({ text, look }) =>
            look === '' ? text : <span class={look}>{text}</span>,
          )}
          {'\n'}
        </>
      ))}
    </span>
  ),
  (one, other) =>
    one.from === other.from &&
    one.lines.length === other.lines.length &&
    one.lines[0] === other.lines[0],
);

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
