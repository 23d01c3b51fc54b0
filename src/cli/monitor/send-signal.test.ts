import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readProcess } from '../../run/processes/process-table.js';
import { KeyDecoder, sendSignal } from './monitor-screen.js';

const machine = {
  procRoot: '/proc',
  ownPid: process.pid,
  kill: (pid: number, signal: NodeJS.Signals) => void process.kill(pid, signal),
};

function target(pid: number, started: number | undefined) {
  return { pid, started, user: 'ada', command: 'sleep' };
}

describe('sendSignal', () => {
  it('ends a real process, and only the one that was meant', async () => {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const pid = child.pid ?? 0;
    const started = readProcess('/proc', pid)?.started ?? 0;
    expect(sendSignal([target(pid, started + 1)], 'SIGKILL', machine)).toContain(
      'has ended already',
    );
    expect(child.exitCode).toBeNull();
    expect(sendSignal([target(pid, started)], 'SIGTERM', machine)).toBe(
      `SIGTERM was sent to ${pid}.`,
    );
    expect(await once(child, 'exit')).toEqual([null, 'SIGTERM']);
  });

  it('leaves itself, the first process and unknown ones alone', () => {
    const never = { ...machine, kill: () => expect.unreachable() };
    expect(sendSignal([target(process.pid, 1)], 'SIGTERM', never)).toContain('q leaves it');
    expect(sendSignal([target(1, 1)], 'SIGTERM', never)).toContain('left alone');
    expect(sendSignal([target(5, undefined)], 'SIGTERM', never)).toContain('left alone');
  });

  it('says whose process it is when it may not', () => {
    const started = readProcess('/proc', process.ppid)?.started;
    const denied = Object.assign(new Error('no'), { code: 'EPERM' });
    const refusing = {
      ...machine,
      kill: () => {
        throw denied;
      },
    };
    expect(sendSignal([target(process.ppid, started)], 'SIGKILL', refusing)).toContain(
      'belongs to ada',
    );
  });
});

function keys(...pieces: readonly string[]): string[] {
  const decoder = new KeyDecoder();
  return [...pieces.flatMap((piece) => decoder.feed(piece)), ...decoder.flush()].map((input) =>
    input.kind === 'key' ? input.key : `${input.kind} ${input.column},${input.row}`,
  );
}

describe('KeyDecoder', () => {
  it('names letters, control keys and the keys that send a sequence', () => {
    expect(keys('qK?é模')).toEqual(['q', 'K', '?', 'é', '模']);
    expect(keys('\r\t \u007F\u0003\u001A\u0015')).toEqual([
      'enter',
      'tab',
      'space',
      'backspace',
      'ctrl-c',
      'ctrl-z',
      'ctrl-u',
    ]);
    expect(keys('\u001B[A\u001B[6~\u001BOH\u001BOP')).toEqual(['up', 'page-down', 'home', 'f1']);
  });

  it('tells Esc from a sequence that comes in pieces', () => {
    expect(keys('\u001B')).toEqual(['escape']);
    expect(keys('\u001B', '[', '5', '~')).toEqual(['page-up']);
    expect(keys('\u001Bq')).toEqual(['escape', 'q']);
    expect(keys('\u001B[12')).toEqual([]);
  });

  it('reads clicks and the wheel, from 0', () => {
    expect(keys('\u001B[<0;1;1M\u001B[<0;1;1m')).toEqual(['click 0,0']);
    expect(keys('\u001B[<64;300;100M\u001B[<65;2;3M')).toEqual([
      'wheel-up 299,99',
      'wheel-down 1,2',
    ]);
    expect(keys('\u001B[<2;5;5M')).toEqual([]);
  });

  it('takes anything, in any pieces, and loses no letter after it', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 12 })), (pieces) => {
        expect(keys(...pieces, '\u001B[A', 'q').at(-1)).toBe('q');
      }),
    );
  });
});
