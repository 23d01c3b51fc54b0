import { type CliIo, textStyle } from '../io.js';
import { openLiveProgress } from './live-progress.js';

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
