/** Does a piece of work when its turn has come. */
export type ConcurrencyLimit = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Lets so many pieces of work go on at the same time; the others wait for their turn, in order.
 *
 * @example
 * const limited = limitConcurrency(2);
 * await limited(() => trace(model));
 */
export function limitConcurrency(most: number): ConcurrencyLimit {
  const waiting: (() => void)[] = [];
  let working = 0;
  return async (work) => {
    // The one that ends hands its place to the next, so that no other slips in between.
    if (working >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else working++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) working--;
      else next();
    }
  };
}
