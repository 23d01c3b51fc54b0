import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { rowKey } from './build-rows.js';
import { ProcessWatch } from './process-watch.js';

const stat = (started: number) => `5 (x) S 1 ${'0 '.repeat(17)}${started} 0\n`;
const reading = (...usedBytes: readonly number[]) => [
  {
    info: { id: 'gpu:0' },
    processes: usedBytes.map((bytes) => ({ pid: 5, name: 'x', usedBytes: bytes })),
  },
];
const key = rowKey(5, 'gpu:0');

describe('what the screen remembers of a process', () => {
  it('is its own: another that gets its pid starts without a past', async () => {
    await using tree = await makeFakeTree({ 'proc/5/stat': stat(10) });
    const { proc } = tree.roots;
    const watch = new ProcessWatch({ procRoot: proc, userName: String, seconds: () => 1 });
    watch.take(reading(100));
    expect(watch.details(5)?.facts.started).toBe(10);
    watch.take(reading(200));
    expect(watch.trail(key)).toEqual([100, 200]);
    writeFileSync(join(proc, '5/stat'), stat(20));
    watch.refresh([5]);
    watch.take(reading(300));
    expect(watch.trail(key)).toEqual([300]);
  });

  it('is dropped some seconds after it has gone', async () => {
    await using tree = await makeFakeTree({ 'proc/5/stat': stat(10) });
    let now = 0;
    const watch = new ProcessWatch({
      procRoot: tree.roots.proc,
      userName: String,
      seconds: () => now,
    });
    watch.take(reading(100));
    now = 5;
    watch.take(reading());
    expect(watch.trail(key)).toEqual([100]);
    now = 11;
    watch.take(reading());
    expect(watch.trail(key)).toEqual([]);
  });
});
