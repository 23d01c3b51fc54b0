import { formatSeconds } from '../../units/durations.js';
import type { CliIo } from '../io.js';
import { openProgress } from './progress.js';

const firstMs = 1000;
const everyMs = 500;

/**
 * While work goes on that has no measurable end: what it is and for how long, on a terminal only and
 * from the first second on.
 */
export async function showBusy<T>(
  { stderr }: Pick<CliIo, 'stderr'>,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  if (!stderr.isTerminal) return work();
  const progress = openProgress(stderr);
  const began = performance.now();
  const timer = setInterval(() => {
    const passed = performance.now() - began;
    if (passed >= firstMs) progress.show(`${what} ... ${formatSeconds(passed / 1000)}`);
  }, everyMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    progress.end();
  }
}
