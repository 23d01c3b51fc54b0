import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BufferStore, Tier } from '../../src/buffers/buffer-store.js';
import { needsTorch, tracingPython as python } from '../support/needs.js';
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

/** Puts items without end, each key again and again with another value, and tells which is done. */
const writer = `
const { BufferStore } = await import(process.argv[1]);
const store = new BufferStore({ limit: '1MiB', folder: process.argv[2], fileAbove: 0 });
for (let round = Number(process.argv[3]); ; round++) {
  const key = 'k' + (round % 7);
  store.put(key, new Float64Array(20000).fill(round));
  process.stdout.write(key + ' ' + round + '\\n');
  await new Promise((resolve) => setImmediate(resolve));
}`;

/** Runs the writer until it told so many lines, kills it, and answers all that it told. */
function killedWriter(folder: string, first: number, lines: number): Promise<string[]> {
  const entry = pathToFileURL(join(root, 'dist/entries/buffers.js')).href;
  const args = ['--input-type=module', '-e', writer, entry, folder, String(first)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve, reject) => {
    let printed = '';
    child.stdout.on('data', (text: Buffer) => {
      printed += text.toString();
      if (printed.split('\n').length > lines) child.kill('SIGKILL');
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (signal === 'SIGKILL') resolve(printed.split('\n').slice(0, -1));
      else reject(new Error(`the writer ended by itself with ${code}`));
    });
  });
}

describe('a store whose process is killed', () => {
  it('opens, has every item that was acknowledged, and no half of one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-buffers-killed-'));
    try {
      const acknowledged = new Map<string, number>();
      for (const lines of [1, 3, 8, 20, 33]) {
        const first = Math.max(0, ...acknowledged.values()) + 1;
        for (const line of await killedWriter(folder, first, lines)) {
          const [key = '', round = ''] = line.split(' ');
          acknowledged.set(key, Number(round));
        }
        using store = new BufferStore({ limit: '1MiB', folder });
        expect(store.statistics().damaged).toBe(0);
        for (const [key, round] of acknowledged) {
          const value = store.get(key);
          if (!(value instanceof Float64Array)) throw new Error(`${key} is gone`);
          // The next value of a key may be complete before it was told.
          expect([round, round + 7]).toContain(value[0]);
          expect(new Set(value).size).toBe(1);
          acknowledged.set(key, Number(value[0]));
        }
        expect(readdirSync(folder).filter((name) => !name.endsWith('.buffer'))).toEqual([]);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

function run(...args: string[]): string {
  const script = join(root, 'test/buffers/python.py');
  const ran = spawnSync(python, [script, ...args], { encoding: 'utf8' });
  expect(ran.stderr).toBe('');
  return ran.stdout;
}

let folder: string;

describe('TypeScript and Python', needsTorch, () => {
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-buffers-python-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

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
