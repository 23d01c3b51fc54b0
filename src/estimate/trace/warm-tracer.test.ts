import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WarmTracer, type WarmTracerOptions } from './warm-tracer.js';

/**
 * In Python's place: notes its start, answers each question in a process of its own, and ends with
 * its input. An argument says what goes wrong.
 */
const standIn = `
import { appendFileSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
const [folder, how] = process.argv.slice(2);
appendFileSync(folder + '/starts', 'x');
if (how === 'no-torch') process.exit(3);
const send = (message) => console.log(JSON.stringify(message));
send({ ready: true });
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, args, stdout, stderr } = JSON.parse(line);
  if (args[0] === 'die') process.exit(1);
  const seconds = args[0] === 'hang' ? '1000' : '0';
  const child = spawn('sleep', [seconds], { detached: true, stdio: 'ignore' });
  send({ id, pid: child.pid });
  writeFileSync(folder + '/pid', String(child.pid));
  writeFileSync(stdout, 'said ' + args[0]);
  writeFileSync(stderr, 'e'.repeat(20000) + 'end');
  child.on('exit', (code, signal) => send({ id, status: code, signal }));
}).on('close', () => process.exit(0));
`;

let folder: string;
let stamp: string;
const tracers: WarmTracer[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-warm-'));
  stamp = 'one';
  writeFileSync(join(folder, 'stand-in.mjs'), standIn);
});
afterEach(() => {
  for (const tracer of tracers.splice(0)) tracer.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

function warm(how = 'well', more: Partial<WarmTracerOptions> = {}): WarmTracer {
  const made = new WarmTracer({
    program: process.execPath,
    args: [join(folder, 'stand-in.mjs'), folder, how],
    environment: { PATH: process.env['PATH'] },
    folder,
    stamp: async () => stamp,
    ...more,
  });
  tracers.push(made);
  return made;
}
const ask = (what: string, timeoutSeconds = 60, signal?: AbortSignal) => ({
  args: [what],
  scratch: folder,
  timeoutSeconds,
  signal,
});
const starts = () => readFileSync(join(folder, 'starts'), 'utf8').length;
const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
};

describe('WarmTracer', () => {
  it('answers one question after another, and several at once, from one process', async () => {
    const tracer = warm();
    const end = await tracer.run(ask('first'));
    expect(end).toMatchObject({ code: 0, signal: null, stdout: 'said first' });
    expect(end).toHaveProperty('stderr', `${'e'.repeat(16_381)}end`);
    await Promise.all([tracer.run(ask('second')), tracer.run(ask('third'))]);
    expect(starts()).toBe(1);
  });

  it('starts another after so many answers, and when packages changed', async () => {
    const tracer = warm('well', { maxTraces: 2 });
    for (const what of ['1', '2', '3']) await tracer.run(ask(what));
    expect(starts()).toBe(2);
    stamp = 'two';
    expect(await tracer.run(ask('4'))).toMatchObject({ code: 0 });
    expect(starts()).toBe(3);
  });

  it('leaves the trace to others where it cannot be started, and tries again with other packages', async () => {
    const tracer = warm('no-torch');
    expect(await tracer.run(ask('1'))).toBeUndefined();
    expect(await tracer.run(ask('2'))).toBeUndefined();
    expect(starts()).toBe(1);
    stamp = 'two';
    expect(await tracer.run(ask('3'))).toBeUndefined();
    expect(starts()).toBe(2);
  });

  it('leaves the trace to others when it dies, and starts again for the next', async () => {
    const tracer = warm();
    expect(await tracer.run(ask('die'))).toBeUndefined();
    expect(await tracer.run(ask('next'))).toMatchObject({ code: 0 });
    expect(starts()).toBe(2);
  });

  it('ends what hangs, and what is no longer wanted, and nothing else', async () => {
    const tracer = warm();
    expect(await tracer.run(ask('hang', 0.5))).toEqual({ timedOutSeconds: 0.5 });
    rmSync(join(folder, 'pid'));
    const stop = new AbortController();
    const running = tracer.run(ask('hang', 60, stop.signal));
    await until(() => existsSync(join(folder, 'pid')));
    stop.abort();
    expect(await running).toMatchObject({ code: null, signal: 'SIGKILL' });
    expect(await tracer.run(ask('next'))).toMatchObject({ code: 0 });
    expect(starts()).toBe(1);
  });

  it('takes nothing more once it is closed', async () => {
    const tracer = warm();
    await tracer.run(ask('1'));
    tracer.close();
    expect(await tracer.run(ask('2'))).toBeUndefined();
    expect(starts()).toBe(1);
  });
});
