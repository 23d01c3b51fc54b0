import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BufferStore, Tier } from '../../src/buffers/buffer-store.js';
import { needsTorch, tracingPython as python } from '../support/needs.js';
import { root } from '../support/project-files.js';

function run(...args: string[]): string {
  const script = join(root, 'test/buffers/python.py');
  const ran = spawnSync(python, [script, ...args], { encoding: 'utf8' });
  expect(ran.stderr).toBe('');
  return ran.stdout;
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-buffers-python-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('TypeScript and Python', needsTorch, () => {
  it('read the files of Python in TypeScript', () => {
    run('write', folder);
    using store = new BufferStore({ limit: '1MiB', folder });
    expect(store.get('bytes')).toEqual(Uint8Array.of(1, 2, 3));
    expect(store.get('grid')).toEqual({
      shape: [2, 3],
      data: Int16Array.of(0, 1, 2, 3, 4, 5),
      dtype: 'int16',
    });
    expect(store.get('dict é')).toEqual({
      obs: Float64Array.of(1.5, 2.5),
      done: Uint8Array.of(1),
    });
    const series = store.get('series');
    if (!(series instanceof Float32Array)) throw new Error('the series is gone');
    expect(series).toHaveLength(5000);
    expect(series[785]).toBe(Math.fround(Math.sin(785 / 500)));
  });

  it('read the files of TypeScript in Python', () => {
    using store = new BufferStore({ limit: '1MiB', folder, fileAbove: 0 });
    store.put('bytes', Uint8Array.of(7));
    store.put(
      'numbers',
      Float32Array.from({ length: 4000 }, (_, index) => index % 100),
    );
    store.put('dict', {
      wide: { shape: [1, 2], data: BigInt64Array.of(-3n, 5n) },
      empty: new Uint8Array(),
    });
    expect(JSON.parse(run('read', folder))).toEqual({
      bytes: [7],
      numbers: { dtype: 'float32', shape: [4000], sum: 198_000 },
      dict: { wide: { dtype: 'int64', shape: [1, 2], sum: 2 }, empty: [] },
    });
  });

  it('drop the same items', () => {
    // Hot items that move on, with others in between: both ways to choose are taken in turn.
    const trace = Array.from({ length: 20_000 }, (_, index) => {
      const mixed = Math.imul(index + 1, 2_654_435_761) >>> 0;
      return mixed % 3 === 0 ? mixed % 5000 : 10_000 + Math.floor(index / 4000) * 30 + (mixed % 80);
    });
    writeFileSync(join(folder, 'trace.json'), JSON.stringify({ items: 100, trace }));
    const tier = new Tier<{ rawBytes: number }>(100);
    let hits = 0;
    for (const key of trace.map(String)) {
      if (tier.use(key) === undefined) tier.add(key, { rawBytes: 1 }, 1);
      else hits += 1;
    }
    expect(hits).toBeGreaterThan(5000);
    expect(Number(run('hits', join(folder, 'trace.json')))).toBe(hits);
  });
});
