import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';

/** What V8's collector did while it was watched. All measured. */
export interface GcPauses {
  readonly collections: number;
  readonly totalSeconds: number;
  readonly longestSeconds: number;
  /** By kind of collection, in V8's words. */
  readonly kinds: Readonly<Record<string, { collections: number; totalSeconds: number }>>;
}

const kindNames: ReadonlyMap<unknown, string> = new Map([
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weak callbacks'],
]);

/**
 * Measures the pauses of Node's garbage collector from here on, until it is closed.
 *
 * @example
 * using pauses = watchGcPauses();
 * work();
 * console.log(pauses.report().longestSeconds);
 */
export function watchGcPauses(): { report(): GcPauses } & Disposable {
  const kinds: Record<string, { collections: number; totalSeconds: number }> = {};
  let longestSeconds = 0;
  const take = (entries: readonly PerformanceEntry[]) => {
    for (const { duration, detail } of entries) {
      const name = kindNames.get(Reflect.get(Object(detail), 'kind')) ?? 'other';
      const kind = (kinds[name] ??= { collections: 0, totalSeconds: 0 });
      kind.collections += 1;
      kind.totalSeconds += duration / 1000;
      longestSeconds = Math.max(longestSeconds, duration / 1000);
    }
  };
  const observer = new PerformanceObserver((list) => take(list.getEntries()));
  observer.observe({ entryTypes: ['gc'] });
  return {
    report() {
      // Entries that Node has not handed out yet.
      take(observer.takeRecords());
      const all = Object.values(kinds);
      return {
        collections: all.reduce((sum, { collections }) => sum + collections, 0),
        totalSeconds: all.reduce((sum, { totalSeconds }) => sum + totalSeconds, 0),
        longestSeconds,
        kinds,
      };
    },
    [Symbol.dispose]: () => observer.disconnect(),
  };
}
