import { spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { starterScript } from './keeper-scripts.js';
import { planOutputs, type RawOutput } from './outputs.js';
import { relaySignals } from './signal-relay.js';

function output(fd: number, isTerminal: boolean): RawOutput {
  return { fd, isTerminal, size: () => undefined, write: () => Promise.resolve() };
}

describe('planOutputs', () => {
  const plan = (
    stdout: boolean,
    stderr: boolean,
    more: { areOne?: boolean; keepStdoutFree?: boolean } = {},
  ) =>
    planOutputs({
      stdout: output(1, stdout),
      stderr: output(2, stderr),
      areOne: more.areOne ?? false,
      keepStdoutFree: more.keepStdoutFree ?? false,
    }).map(({ name, to, as }) => `${name} ${to.fd} ${as}`);

  it('keeps outputs apart that are apart, and together that are one', () => {
    expect(plan(false, false)).toEqual(['stdout 1 pipe', 'stderr 2 pipe']);
    expect(plan(false, false, { areOne: true })).toEqual(['both 1 pipe']);
    expect(plan(true, true)).toEqual(['both 1 terminal']);
    expect(plan(false, true)).toEqual(['stdout 1 pipe', 'stderr 2 terminal']);
    expect(plan(true, true, { keepStdoutFree: true })).toEqual(['both 2 terminal']);
  });
});

describe('relaySignals', () => {
  function relay(heardByGroup: boolean) {
    const emitter = new EventEmitter();
    const sent: string[] = [];
    let ms = 0;
    let impatient = 0;
    const relayed = relaySignals({
      source: {
        pid: 42,
        on: (signal, listener) => emitter.on(signal, listener),
        off: (signal, listener) => emitter.off(signal, listener),
        kill: (pid, signal) => sent.push(`${pid} ${signal}`),
      },
      canary: {
        heard: () => Promise.resolve(heardByGroup),
        isStopped: () => Promise.resolve(heardByGroup),
        release: () => {},
      },
      forward: (signal) => sent.push(signal),
      onStop: (signal) => sent.push(`stop ${signal}`),
      onImpatient: () => impatient++,
      onResize: () => sent.push('resize'),
      nowMs: () => ms,
    });
    const signal = async (name: NodeJS.Signals, afterMs = 1000) => {
      ms += afterMs;
      emitter.emit(name);
      await new Promise((resolve) => setImmediate(resolve));
    };
    return { signal, sent, relayed, emitter, impatient: () => impatient };
  }

  it('forwards what came to us alone, and not what all of the group got', async () => {
    const alone = relay(false);
    await alone.signal('SIGINT');
    await alone.signal('SIGUSR1');
    expect(alone.sent).toEqual(['stop SIGINT', 'SIGINT', 'SIGUSR1']);
    expect(alone.relayed.stoppedBy).toBe('SIGINT');
    const group = relay(true);
    await group.signal('SIGINT');
    await group.signal('SIGUSR1');
    expect(group.sent).toEqual(['stop SIGINT']);
  });

  it('takes one Ctrl-C that arrives twice for one, and three for impatience', async () => {
    const { signal, impatient } = relay(true);
    await signal('SIGINT');
    await signal('SIGINT', 10);
    await signal('SIGINT', 10);
    await signal('SIGINT', 1000);
    expect(impatient()).toBe(0);
    await signal('SIGINT', 1000);
    expect(impatient()).toBe(1);
  });

  it('kills once for all signals that came while it was busy', async () => {
    const { signal, impatient } = relay(true);
    const flood = Array.from({ length: 100 }, () => signal('SIGTERM'));
    expect(impatient()).toBe(0);
    await Promise.all(flood);
    expect(impatient()).toBe(1);
  });

  it('stops and goes on together with the job', async () => {
    const { signal, sent } = relay(false);
    await signal('SIGTSTP');
    expect(sent).toEqual(['SIGTSTP', '42 SIGSTOP']);
    await signal('SIGCONT');
    expect(sent.slice(2)).toEqual(['SIGCONT', 'resize']);
  });

  it('lets go of all signals', async () => {
    const { signal, sent, relayed, emitter } = relay(false);
    relayed.release();
    await signal('SIGINT');
    expect(sent).toEqual([]);
    expect(emitter.eventNames()).toEqual([]);
  });
});

describe('the starter of a job', () => {
  it('starts it though the supervisor that would hear its pid was killed', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-starter-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const pidFile = join(folder, 'pid');
    // It waits for a line, so that the other end of descriptor 3 is closed before it writes to it.
    const words = [starterScript, 'plimsoll-job', pidFile, '', '', 'echo', 'started'];
    const child = spawn('sh', ['-c', 'read -r _; exec sh -c "$@"', 'gate', ...words], {
      stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
    });
    const line = child.stdio[3];
    await new Promise((resolve) => line?.once('close', resolve).destroy());
    child.stdin?.end('go\n');
    let said = '';
    child.stdout?.on('data', (data) => {
      said += String(data);
    });
    const [code, signal] = await new Promise<unknown[]>((resolve) =>
      child.once('close', (...how) => resolve(how)),
    );
    expect({ said, code, signal }).toEqual({ said: 'started\n', code: 0, signal: null });
    expect(Number(readFileSync(pidFile, 'utf8'))).toBe(child.pid);
  });
});
