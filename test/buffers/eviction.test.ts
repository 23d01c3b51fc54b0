import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../support/project-files.js';

interface Row {
  readonly pattern: string;
  readonly rates: { readonly LRU: number; readonly LFU: number; readonly plimsoll: number };
}

describe('what a store drops first', { tags: 'rest' }, () => {
  it('hits at most 1 % below the better of LRU and LFU, on every pattern of the benchmark', () => {
    const bench = join(root, 'bench/buffers.mjs');
    const ran = spawnSync(process.execPath, [bench, '--only', 'eviction', '--json'], {
      encoding: 'utf8',
    });
    expect(ran.stderr).toBe('');
    const { eviction }: { eviction: Row[] } = JSON.parse(ran.stdout);
    expect(eviction.length).toBeGreaterThanOrEqual(8);
    const below = eviction
      .map(
        ({ pattern, rates }) => [pattern, Math.max(rates.LRU, rates.LFU) - rates.plimsoll] as const,
      )
      .filter(([, points]) => points > 1);
    expect(below).toEqual([]);
    // The two simple ways do differ here: one that only copies one of them would be found out.
    expect(eviction.some(({ rates }) => rates.LRU > rates.LFU + 20)).toBe(true);
    expect(eviction.some(({ rates }) => rates.LFU > rates.LRU + 5)).toBe(true);
  });
});
