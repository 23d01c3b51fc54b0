import { type ChildProcess, spawn } from 'node:child_process';
import * as fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { until } from '../../../test/run/running.js';
import { runIdIn } from '../../run/processes/process-facts.js';
import { RunProcesses } from './local-engine.js';

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

function started(command: readonly string[], environment: Record<string, string>): number {
  const [program = '', ...words] = command;
  const env = { PATH: process.env['PATH'] ?? '', ...environment };
  const child = spawn(program, words, { env, stdio: 'ignore' });
  children.push(child);
  return child.pid ?? 0;
}

describe('RunProcesses', () => {
  it('tells processes of runs by their variable, and by their parents where they dropped it', async () => {
    const processes = new RunProcesses('/proc');
    const own = started(['sleep', '60'], { PLIMSOLL_RUN_ID: 'run-a' });
    const other = started(['sleep', '60'], {});
    const shell = started(['sh', '-c', 'env -i sleep 61; true'], { PLIMSOLL_RUN_ID: 'run-b' });
    const found = await until(() => {
      const runs = processes.look();
      const ofB = [...runs].filter(([, run]) => run === 'run-b').map(([pid]) => pid);
      return runs.get(own) === 'run-a' && ofB.length === 2 ? { runs, ofB } : undefined;
    });
    expect(found.ofB).toContain(shell);
    expect(found.runs.get(other)).not.toBe('run-a');
    expect(found.runs.has(2 ** 22 + 1)).toBe(false);
  });
});

describe('RunProcesses of a made-up /proc', () => {
  const stat = (pid: number, startedTicks: number) =>
    `${pid} (x) S 1 ${'0 '.repeat(17)}${startedTicks} 0`;

  it('tells a process from a later one that got its number, and reads each only at first', async () => {
    await using tree = await makeFakeTree({
      'proc/7/stat': stat(7, 100),
      'proc/7/environ': 'PLIMSOLL_RUN_ID=run-a\0',
    });
    const processes = new RunProcesses(tree.roots.proc);
    expect(processes.look().get(7)).toBe('run-a');
    await tree.write({ 'proc/7/environ': 'PLIMSOLL_RUN_ID=run-b\0' });
    expect(processes.look().get(7)).toBe('run-a');
    await tree.write({ 'proc/7/stat': stat(7, 200) });
    expect(processes.look().get(7)).toBe('run-b');
  });
});

describe('runIdIn', () => {
  it('finds the variable wherever it stands, and only it', () => {
    const word = fc.string({ minLength: 1 }).filter((text) => !text.includes('\0'));
    fc.assert(
      fc.property(fc.array(word), fc.array(word), fc.uuid(), (before, after, id) => {
        const names = (words: readonly string[]) =>
          words.map((text) => `X${text}=${text}\0`).join('');
        const decoy = 'OLD_PLIMSOLL_RUN_ID=no\0';
        const text = `${names(before)}${decoy}PLIMSOLL_RUN_ID=${id}\0${names(after)}`;
        expect(runIdIn(Buffer.from(text))).toBe(id);
        expect(runIdIn(Buffer.from(`${names(before)}${decoy}`))).toBeUndefined();
      }),
    );
  });
});
