/**
 * Where samples come from: a list; anything that can be iterated; or a function that begins at a
 * position, so that a long way need not be walked again after a crash.
 */
export type SampleSource<S> =
  | readonly S[]
  | Iterable<S>
  | AsyncIterable<S>
  | ((startAt: number) => Iterable<S> | AsyncIterable<S>);

/** Hands out samples in order. */
export interface SampleReader<S> {
  /** Up to `count` samples; fewer only at the end. A promise only where the source needs one. */
  take(count: number): S[] | Promise<S[]>;
  close(): Promise<void>;
}

/** Skipping is done in steps, so that a long way does not fill the memory. */
const skipStep = 1024;

export async function openSource<S>(
  source: SampleSource<S>,
  startAt: number,
): Promise<SampleReader<S>> {
  if (Array.isArray(source)) return listReader(source, startAt);
  if (typeof source === 'function') return iterableReader(source(startAt));
  const reader = iterableReader(source as Iterable<S> | AsyncIterable<S>);
  for (let left = startAt; left > 0; ) {
    const skipped = (await reader.take(Math.min(left, skipStep))).length;
    if (skipped === 0) break;
    left -= skipped;
  }
  return reader;
}

function listReader<S>(list: readonly S[], startAt: number): SampleReader<S> {
  let at = startAt;
  return {
    take(count) {
      const taken = list.slice(at, at + count);
      at += taken.length;
      return taken;
    },
    close: () => Promise.resolve(),
  };
}

function iterableReader<S>(source: Iterable<S> | AsyncIterable<S>): SampleReader<S> {
  return Symbol.iterator in source ? syncReader(source) : asyncReader(source);
}

function syncReader<S>(source: Iterable<S>): SampleReader<S> {
  const iterator = source[Symbol.iterator]();
  let isDone = false;
  return {
    take(count) {
      const taken: S[] = [];
      while (taken.length < count && !isDone) {
        const { done, value } = iterator.next();
        if (done) isDone = true;
        else taken.push(value);
      }
      return taken;
    },
    close() {
      if (!isDone) iterator.return?.();
      isDone = true;
      return Promise.resolve();
    },
  };
}

function asyncReader<S>(source: AsyncIterable<S>): SampleReader<S> {
  const iterator = source[Symbol.asyncIterator]();
  let isDone = false;
  return {
    async take(count) {
      const taken: S[] = [];
      while (taken.length < count && !isDone) {
        const { done, value } = await iterator.next();
        if (done) isDone = true;
        else taken.push(value);
      }
      return taken;
    },
    async close() {
      if (!isDone) await iterator.return?.();
      isDone = true;
    },
  };
}
