import { spawn } from 'node:child_process';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { createVirtualClock } from '../../time/clock.js';
import { endTree, membersOf } from './end-tree.js';
import { descendants, hasVariable, parseStat, readResident } from './process-table.js';

const stat = (pid: number, parent: number, state = 'S', name = 'x') =>
  `${pid} (${name}) ${state} ${parent} ${'0 '.repeat(17)}99 0\n`;

const noLimit = { pids: () => [], killAll: () => {} };

describe('the process table', () => {
  it('is read past names that try to look like it', () => {
    expect(parseStat(stat(5, 4, 'T', 'a) S 1 (b'))).toEqual({
      pid: 5,
      parent: 4,
      state: 'T',
      started: 99,
      cpuTicks: 0,
    });
    expect(parseStat('')).toBeUndefined();
    fc.assert(fc.property(fc.string(), (text) => void parseStat(text)));
  });

  it('knows all below a process', () => {
    const table = [stat(2, 1), stat(3, 2), stat(4, 3), stat(9, 1)].flatMap(
      (text) => parseStat(text) ?? [],
    );
    expect([...descendants(table, new Set([2]))].toSorted((a, b) => a - b)).toEqual([2, 3, 4]);
    expect([...descendants(table, new Set([77]))]).toEqual([]);
  });

  it('finds members below, in the limit, or by their variable, and no zombie', async () => {
    await using tree = await makeFakeTree({
      'proc/2/stat': stat(2, 1),
      'proc/3/stat': stat(3, 2),
      'proc/4/stat': stat(4, 1),
      'proc/5/stat': stat(5, 1),
      'proc/5/environ': 'A=1\0RUN=x\0B=2\0',
      'proc/6/stat': stat(6, 1),
      'proc/6/environ': 'A=RUN=x\0RUN=xy\0',
      'proc/7/stat': stat(7, 2, 'Z'),
    });
    const members = membersOf({
      procRoot: tree.roots.proc,
      variable: 'RUN=x',
      roots: () => [2],
      inLimit: () => [4],
    });
    expect(members).toEqual([2, 3, 4, 5]);
  });

  it('believes the limit: a process that came after the table was read is in it, one that ended is not', async () => {
    const tree = await makeFakeTree();
    await tree.write({ 'proc/2/stat': stat(2, 1), 'proc/7/stat': stat(7, 2, 'Z') });
    const membership = { procRoot: tree.roots.proc, variable: 'RUN=x', roots: () => [] };
    expect(membersOf({ ...membership, inLimit: () => [7, 8] })).toEqual([8]);
  });

  it('finds a variable behind an environment of megabytes', () => {
    const padding = Object.fromEntries(
      Array.from({ length: 12 }, (_, at) => [`PAD_${at}`, 'x'.repeat(100_000)]),
    );
    const child = spawn('sleep', ['60'], { env: { ...padding, MARK: 'here' } });
    expect(hasVariable('/proc', child.pid ?? 0, 'MARK=here')).toBe(true);
    child.kill('SIGKILL');
  });

  it('reads a real process', async () => {
    const child = spawn('sleep', ['60'], { env: { ...process.env, MARK: 'here' } });
    expect(hasVariable('/proc', child.pid ?? 0, 'MARK=here')).toBe(true);
    expect(hasVariable('/proc', child.pid ?? 0, 'MARK=her')).toBe(false);
    expect(readResident('/proc', process.pid)?.peakBytes).toBeGreaterThan(1e6);
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
    expect(readResident('/proc', 4_194_304)).toBeUndefined();
  });
});

describe('endTree', () => {
  /** Processes that end some time after a signal, or never. */
  function world(ends: Readonly<Record<number, { signal: string; after: number }>>) {
    const clock = createVirtualClock();
    const alive = new Set(Object.keys(ends).map(Number));
    const sent: string[] = [];
    const kill = (pid: number, signal: NodeJS.Signals) => {
      sent.push(`${pid} ${signal}`);
      const end = ends[pid];
      if (signal !== 'SIGKILL' && end?.signal !== signal) return;
      void clock.waitUntil(clock.seconds() + (end?.after ?? 0)).then(() => alive.delete(pid));
    };
    const members = () => [...alive];
    return {
      clock,
      sent,
      alive,
      options: {
        members,
        kill,
        limit: noLimit,
        clock,
        patience: { bySelfSeconds: 1, afterTermSeconds: 5 },
      },
    };
  }

  it('asks first, and kills only what does not listen', async () => {
    const { clock, sent, options } = world({
      1: { signal: 'SIGTERM', after: 2 },
      2: { signal: 'none', after: 0 },
    });
    const ended = endTree(options);
    await clock.advance(20);
    expect(await ended).toEqual([]);
    expect(sent.filter((line) => line.endsWith('SIGKILL'))).toEqual(['2 SIGKILL']);
  });

  it('lets what ends by itself do so', async () => {
    const { clock, sent, alive, options } = world({ 1: { signal: 'none', after: 0 } });
    void clock.waitUntil(0.5).then(() => alive.clear());
    const ended = endTree(options);
    await clock.advance(2);
    expect(await ended).toEqual([]);
    expect(sent).toEqual([]);
  });

  it('kills what forks faster than all processes can be listed', async () => {
    const clock = createVirtualClock();
    let newest = 1;
    const isOver = () => newest > 400;
    const ended = endTree({
      // Each has forked and ended by the time that the table of all processes was read.
      members: () => (isOver() ? [] : [newest++]),
      limit: { pids: () => (isOver() ? [] : [newest]), killAll: () => {} },
      kill: (pid) => {
        if (pid === newest) newest += 1;
      },
      clock,
      patience: { bySelfSeconds: 0, afterTermSeconds: 0 },
    });
    await clock.advance(0.2);
    expect(await ended).toEqual([]);
  });

  it('answers what it could not end', async () => {
    const clock = createVirtualClock();
    const ended = endTree({
      members: () => [9],
      kill: () => {},
      limit: noLimit,
      clock,
      patience: { bySelfSeconds: 0, afterTermSeconds: 0 },
    });
    await clock.advance(60);
    expect(await ended).toEqual([9]);
  });
});
