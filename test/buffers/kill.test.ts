import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BufferStore } from '../../src/buffers/buffer-store.js';
import { root } from '../support/project-files.js';

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
