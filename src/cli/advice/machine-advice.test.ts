import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { needsLinux } from '../../../test/support/needs.js';
import { MiB } from '../../units/bytes.js';
import { leftOverAdvice, leftOverMemory } from './machine-advice.js';
import { nodeCommand, runningNodePrograms } from './node-advice.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-optimize-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('leftOverMemory', needsLinux, () => {
  it('counts files of processes that are gone, and no others', () => {
    const proc = join(folder, 'proc');
    mkdirSync(join(proc, '11'), { recursive: true });
    const bytes = Buffer.alloc(MiB, 1);
    writeFileSync(join(folder, 'torch_11_1_0'), bytes);
    writeFileSync(join(folder, 'torch_12_1_0'), bytes);
    writeFileSync(join(folder, 'torch_12_1_1'), bytes);
    writeFileSync(join(folder, 'torch_13_1_0'), 'little');
    writeFileSync(join(folder, 'other_14_1'), bytes);
    writeFileSync(join(folder, 'torch_x_1'), bytes);
    symlinkSync(join(folder, 'other_14_1'), join(folder, 'torch_15_link'));
    const found = leftOverMemory(folder, proc);
    expect(found.map(({ pid, files }) => ({ pid, files }))).toEqual([{ pid: 12, files: 2 }]);
    expect(found[0]?.bytes).toBeGreaterThanOrEqual(2 * MiB);
    const [advice] = leftOverAdvice(found, 100 * MiB, folder);
    expect(advice?.steps).toEqual([`rm ${join(folder, 'torch_12_')}*`]);
  });

  it('finds nothing where there is no such folder', () => {
    expect(leftOverMemory(join(folder, 'none'), '/proc')).toEqual([]);
  });
});

describe('programs on Node', needsLinux, () => {
  it('reads from a real process where its heap ends', () => {
    const child = spawn(process.execPath, [
      '--max-old-space-size=321',
      '-e',
      'setInterval(Date, 9e8)',
    ]);
    try {
      const pid = child.pid ?? 0;
      const [found] = runningNodePrograms([{ pid, name: 'node', usedBytes: 300 * MiB }], '/proc');
      expect(found).toMatchObject({
        who: `node (${pid})`,
        heapLimitBytes: 321 * MiB,
        heapStated: 'command',
        isYoungStated: false,
      });
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('leaves out small programs, others, and what it was not told the size of', () => {
    const rows = [
      { pid: 1, name: 'node', usedBytes: MiB },
      { pid: 1, name: 'python', usedBytes: 300 * MiB },
      { pid: 1, name: 'node', usedBytes: 'unknown' },
      { pid: process.pid, name: 'node', usedBytes: 300 * MiB },
    ] as const;
    expect(runningNodePrograms(rows, '/proc')).toEqual([]);
  });

  it('asks the Node of a command for its default, and takes what the command says before that', async () => {
    const asked = await nodeCommand([process.execPath, 'app.js'], {});
    expect(asked?.heapLimitBytes).toBeGreaterThan(100 * MiB);
    expect(asked).toMatchObject({ heapStated: 'no', isYoungStated: false });
    const answer = await nodeCommand(['node', 'app.js'], {
      NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=32',
    });
    expect(answer).toMatchObject({
      heapLimitBytes: 64 * MiB,
      heapStated: 'variable',
      isYoungStated: true,
    });
    expect(await nodeCommand(['python', 'train.py'], {})).toBeUndefined();
    expect(await nodeCommand([join(folder, 'node'), 'app.js'], {})).toBeUndefined();
  });
});
