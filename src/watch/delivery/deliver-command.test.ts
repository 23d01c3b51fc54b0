import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { createVirtualClock } from '../../time/clock.js';
import { fakeAlert } from '../fake-device-for-tests.js';
import { type CommandDeliveryOptions, deliverToCommand } from './deliver-command.js';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'plimsoll-alert-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const problems: string[] = [];
beforeEach(() => {
  problems.length = 0;
});
const report = (problem: string): void => {
  problems.push(problem);
};

/** A sink that runs this program text with Node. */
function nodeSink(program: string, args: string[] = [], options?: CommandDeliveryOptions) {
  return deliverToCommand([process.execPath, '-e', program, ...args], options);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10));
}

const read = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');

describe('the alert command', () => {
  it('gets the alert as JSON on stdin, its parts in the environment, and its arguments as they are', async () => {
    const file = join(folder, 'seen.json');
    const program = `
      const input = require('node:fs').readFileSync(0, 'utf8');
      const env = Object.fromEntries(
        Object.entries(process.env).filter(([name]) => name.startsWith('PLIMSOLL_ALERT_')));
      const [file, ...args] = process.argv.slice(1);
      require('node:fs').writeFileSync(file, JSON.stringify({ alert: JSON.parse(input), env, args }));`;
    const alert = fakeAlert({ pid: 7, message: 'a name with\0 NUL' });
    const sink = nodeSink(program, [file, '$(echo no shell); "quotes"']);
    sink.deliver(alert, report);
    await sink.close('drain');
    expect(problems).toEqual([]);
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({
      alert,
      args: ['$(echo no shell); "quotes"'],
      env: {
        PLIMSOLL_ALERT_KIND: 'gpu-critical',
        PLIMSOLL_ALERT_STATE: 'raised',
        PLIMSOLL_ALERT_SEVERITY: 'critical',
        PLIMSOLL_ALERT_DEVICE: 'gpu:0',
        PLIMSOLL_ALERT_PID: '7',
        PLIMSOLL_ALERT_TIME: '2025-01-15T10:30:00.000Z',
        PLIMSOLL_ALERT_MESSAGE: 'a name with  NUL',
        PLIMSOLL_ALERT_PROVENANCE: 'simulated',
      },
    });
  });

  it('may leave its stdin unread', async () => {
    const sink = nodeSink('process.stdin.destroy()');
    sink.deliver(fakeAlert({ message: 'x'.repeat(100_000) }), report);
    await sink.close('drain');
    expect(problems).toEqual([]);
  });

  it('may fail: how, and its last words, are reported once', async () => {
    const sink = nodeSink('console.error("no such channel"); process.exit(3)');
    sink.deliver(fakeAlert(), report);
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(problems).toEqual(['The alert command failed: it exited with 3: no such channel']);
  });

  it('may be missing, or be no command at all', async () => {
    const sink = deliverToCommand([join(folder, 'not-there')]);
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(problems).toEqual([expect.stringMatching(/^The alert command failed: .*ENOENT/)]);
    expect(() => deliverToCommand([])).toThrow(Failure);
  });

  it('is killed when it takes too long, with what it started', async () => {
    const file = join(folder, 'pid');
    const program = `
      const child = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
      require('node:fs').writeFileSync(process.argv[1], String(child.pid));
      setInterval(() => {}, 1000);`;
    const clock = createVirtualClock();
    const sink = nodeSink(program, [file], { timeoutSeconds: 20, clock });
    sink.deliver(fakeAlert(), report);
    await until(async () => (await read(file)) !== '');
    await clock.advance(20);
    await sink.close('drain');
    expect(problems).toEqual([
      'The alert command failed: it took longer than 20 s and was killed.',
    ]);
    const grandchild = Number(await readFile(file, 'utf8'));
    expect(grandchild).toBeGreaterThan(0);
    await until(() => !isAlive(grandchild));
  });

  it('is killed when watching stops', async () => {
    const file = join(folder, 'pid');
    const program = `
      require('node:fs').writeFileSync(process.argv[1], String(process.pid));
      setInterval(() => {}, 1000);`;
    const sink = nodeSink(program, [file], { timeoutSeconds: 1000 });
    sink.deliver(fakeAlert(), report);
    await until(async () => (await read(file)) !== '');
    const pid = Number(await read(file));
    await sink.close('stop');
    expect(isAlive(pid)).toBe(false);
    expect(problems).toEqual([]);
  });

  it('does not hold us up by something it leaves running', async () => {
    const file = join(folder, 'pid');
    const program = `
      const child = require('node:child_process').spawn(process.execPath,
        ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit', detached: true });
      require('node:fs').writeFileSync(process.argv[1], String(child.pid));
      child.unref();`;
    const sink = nodeSink(program, [file], { timeoutSeconds: 20 });
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(problems).toEqual([]);
    process.kill(Number(await read(file)), 'SIGKILL');
  });
});
