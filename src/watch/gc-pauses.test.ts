import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { watchGcPauses } from './gc-pauses.js';

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

describe('pauses of the collector', () => {
  it('are counted from the start of the watch to its end, by kind', async () => {
    if (typeof collect !== 'function') throw new Error('V8 offers no gc()');
    const pauses = watchGcPauses();
    expect(pauses.report()).toMatchObject({ collections: 0, totalSeconds: 0, longestSeconds: 0 });
    collect();
    // Node hands an entry out after the collection, in a later turn.
    await expect.poll(() => pauses.report().kinds['major']?.collections ?? 0).toBeGreaterThan(0);
    const { totalSeconds, longestSeconds, collections } = pauses.report();
    expect(longestSeconds).toBeGreaterThan(0);
    expect(totalSeconds).toBeGreaterThanOrEqual(longestSeconds);
    pauses[Symbol.dispose]();
    collect();
    await new Promise((resolve) => setImmediate(resolve));
    expect(pauses.report().collections).toBe(collections);
  });
});
