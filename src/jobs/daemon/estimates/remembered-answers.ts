import { RememberedWork } from './remembered-work.js';

/** An estimate takes a few kilobytes, a plan some tens. */
const most = 256;

export interface AskedAnswer<T> {
  /** What the answer depends on, as it is now; undefined where it is not known. */
  readonly key: () => Promise<string | undefined>;
  readonly make: (signal: AbortSignal) => Promise<T>;
}

/**
 * Makes estimates or plans, and the same one only once while nothing that it depends on changes.
 *
 * @example
 * const estimates = rememberedAnswers<Estimate>(({ method }) => method === 'trace');
 * await estimates({ key, make: (signal) => answerEstimate(request, { ...machine, signal }) }, signal);
 */
export function rememberedAnswers<T>(
  /** What could not be traced may be traced the next time, and is not remembered. */
  wasTraced: (answer: T) => boolean,
): (asked: AskedAnswer<T>, signal: AbortSignal) => Promise<T> {
  const memory = new RememberedWork<T>(most);
  return async (asked, signal) => {
    const key = await asked.key();
    if (key === undefined) return asked.make(signal);
    // Where something changed meanwhile, it is unknown whether it was read before that or after.
    const keeps = async (answer: T) => wasTraced(answer) && (await asked.key()) === key;
    return memory.ask({ key, make: asked.make, keeps }, signal);
  };
}
