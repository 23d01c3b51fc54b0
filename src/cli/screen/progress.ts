import { memoryBar } from '../../report/text/charts.js';
import { cutText } from '../../report/text/text-width.js';
import { formatSeconds } from '../../units/durations.js';
import type { DeviceState } from '../../watch/types.js';
import { type CliIo, type Output, textStyle } from '../io.js';

/** One line that is redrawn on a terminal while something goes on, and lines that stay above it. */
export interface Progress {
  /** Shows only on a terminal; a log file wants no thousand copies of it. */
  show(text: string): void;
  /** Printed for good, terminal or not. */
  line(text: string): void;
  end(): void;
}

export function openProgress(output: Output): Progress {
  let shown = '';
  const wipe = () => {
    if (shown !== '') output.write('\r\u001B[K');
    shown = '';
  };
  return {
    show(text) {
      if (!output.isTerminal || text === shown) return;
      // A line as wide as the terminal would wrap, and then not be redrawn in place.
      const cut = cutText(text, output.columns() - 1, '~');
      output.write(`\r${cut}\u001B[K`);
      shown = cut;
    },
    line(text) {
      wipe();
      output.write(`${text}\n`);
    },
    end: wipe,
  };
}

/** Often enough to look alive, seldom enough to cost nothing. */
const everySeconds = 0.2;

/**
 * A line that lives while something is watched: a bar where there is an end, the time, and a few
 * words on each device. Shown a few times a second, and only on a terminal.
 */
export function watchProgress(
  durationSeconds: number,
  words: (state: DeviceState) => string,
  unicode: boolean,
): (atSeconds: number, states: readonly DeviceState[], progress: Progress) => void {
  let next = 0;
  return (atSeconds, states, progress) => {
    if (atSeconds < next) return;
    next = atSeconds + everySeconds;
    const time = formatSeconds(atSeconds);
    const begin =
      durationSeconds > 0
        ? [
            `${barOf(atSeconds / durationSeconds, unicode)} ${time} of ${formatSeconds(durationSeconds)}`,
          ]
        : [time];
    progress.show([...begin, ...states.map(words)].join('   '));
  };
}

const barCells = 20;

/** Cells of the block that moves in a bar of work without a known end. */
const movingCells = 5;
/** From one side to the other. */
const passSeconds = 4;

/**
 * Work whose end is not known, as a bar of the same width: a block that goes from side to side.
 *
 * @example
 * movingBar(2, false); // '--------#####-------'
 */
function movingBar(seconds: number, unicode: boolean): string {
  const [full, empty] = unicode ? ['█', '·'] : ['#', '-'];
  const there = (seconds / passSeconds) % 2;
  const at = Math.round((there <= 1 ? there : 2 - there) * (barCells - movingCells));
  return `${empty.repeat(at)}${full.repeat(movingCells)}${empty.repeat(barCells - movingCells - at)}`;
}

/** How far something is, as a bar of fixed width. */
function barOf(share: number, unicode: boolean): string {
  const style = { colour: false, unicode };
  const spans = memoryBar(
    barCells + 1,
    Math.min(1, share) * 100 * (barCells / (barCells + 1)),
    100,
    style,
  );
  return spans
    .map(({ text }) => text)
    .join('')
    .slice(0, barCells);
}

const firstMs = 1000;

/** What is done now, and how far it is where that is known; drawn at once from the first second on. */
export type Announce = (what: string, share?: number) => void;

/**
 * While work goes on: a bar, what it is and for how long, on a terminal only and from the first second
 * on. Work that holds the thread should announce what it begins: nothing is drawn until it has ended.
 *
 * @example
 * await showBusy(io, 'Reading a.pickle', (announce) => read((share) => announce('Reading a.pickle', share)));
 */
export async function showBusy<T>(
  io: Pick<CliIo, 'stdout' | 'stderr' | 'environment'>,
  what: string,
  work: (announce: Announce) => Promise<T>,
): Promise<T> {
  if (!io.stderr.isTerminal) return work(() => {});
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const began = performance.now();
  let latest: Parameters<Announce> = [what];
  const timer = setTimeout(() => progress.show(...latest), firstMs);
  try {
    return await work((...announced) => {
      latest = announced;
      if (performance.now() - began >= firstMs) progress.show(...announced);
    });
  } finally {
    clearTimeout(timer);
    progress.end();
  }
}

/** Often enough to look alive, seldom enough to cost nothing. */
const everyMs = 500;

/** A line that lives: a bar, what goes on, and for how long. */
export interface LiveProgress extends Progress {
  show(text: string, share?: number): void;
}

/**
 * For work of which only words come now and then: the line is drawn again twice a second, so that a
 * person sees that it goes on. On a terminal only.
 *
 * @example
 * const progress = openLiveProgress(io.stderr, true);
 * progress.show('Tracing step 2 of 3', 1 / 3); // ██████░░░░░░░░░░░░░░ Tracing step 2 of 3 ... 4.5 s
 */
export function openLiveProgress(output: Output, unicode: boolean): LiveProgress {
  const line = openProgress(output);
  const began = performance.now();
  let text = '';
  let share: number | undefined;
  const draw = () => {
    if (text === '') return;
    const seconds = (performance.now() - began) / 1000;
    const bar = share === undefined ? movingBar(seconds, unicode) : barOf(share, unicode);
    line.show(`${bar} ${text} ... ${formatSeconds(seconds)}`);
  };
  const timer = output.isTerminal ? setInterval(draw, everyMs) : undefined;
  // It shows what goes on; it is no reason to go on.
  timer?.unref();
  return {
    show(words, howFar) {
      text = words;
      share = howFar;
      draw();
    },
    line: (words) => line.line(words),
    end() {
      clearInterval(timer);
      text = '';
      line.end();
    },
  };
}
