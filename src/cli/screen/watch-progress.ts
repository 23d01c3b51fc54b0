import { formatSeconds } from '../../units/durations.js';
import type { DeviceState } from '../../watch/types.js';
import { barOf } from './bar.js';
import type { Progress } from './progress.js';

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
