import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { readProcess } from '../../run/processes/process-table.js';
import { sendSignal } from './send-signal.js';

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
