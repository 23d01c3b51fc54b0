import { formatSeconds } from '../../units/durations.js';
import type { Output } from '../io.js';
import { barOf, movingBar } from './bar.js';
import { openProgress, type Progress } from './progress.js';

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
