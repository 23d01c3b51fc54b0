import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/run/types.js';
import { useCommand } from '../cli/command.js';
import { openPty } from '../cli/pty.js';
import { canLimitByCgroup, leftCgroups, livingWith, runIds, textOf, until } from './running.js';

const command = useCommand();
const home = () => join(command.folder(), 'home');
const environment = () => ({ PLIMSOLL_HOME: home(), TEST_MARK: command.folder() });
const node = process.execPath;

function script(name: string, text: string): string {
  const path = join(command.folder(), name);
  writeFileSync(path, text);
  return path;
}

function run(argv: readonly string[], options = {}) {
  return command.run(['run', ...argv], { environment: environment(), ...options });
}

beforeAll(() => {
  // Takes 8 MiB for each sample, and touches them.
  script(
    'take.mjs',
    `const [, , batch, accumulation, seconds = '0'] = process.argv;
     console.log('batch', batch, 'x', accumulation);
     const held = [];
     await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000));
     for (let i = 0; i < Number(batch); i++) held.push(Buffer.alloc(8 << 20, 1));
     console.log('fits', held.length);`,
  );
});

describe('a program under plimsoll run', () => {
  it.each([
    ['its own exit code', 'exit 7', 7],
    ['128 and the number of the signal that ended it', 'kill -TERM $$', 143],
    ['137 for a kill by hand', 'kill -9 $$', 137],
  ])('ends with %s', async (_, line, exitCode) => {
    const ended = await run(['--', 'sh', '-c', line]);
    expect(ended).toEqual({ stdout: '', stderr: '', exitCode });
  });

  it('has its output passed through byte for byte, each where it belongs', async () => {
    const ended = await run(['--', 'sh', '-c', "printf 'a\\r\\0b'; printf 'c\\033[1m' >&2"]);
    expect(ended).toEqual({ stdout: 'a\r\0b', stderr: 'c\u001B[1m', exitCode: 0 });
  });

  it('loses none of much output', async () => {
    const print = "for (let i = 0; i < 20000; i++) console.log(i, 'x'.repeat(50))";
    const { stdout } = await run(['--', node, '-e', print]);
    const lines = stdout.split('\n');
    expect(lines).toHaveLength(20_001);
    expect(lines.every((line, i) => line === '' || line.startsWith(`${i} x`))).toBe(true);
  });

  it('has its placeholders filled, and the same as variables', async () => {
    const { stdout } = await run([
      '--batch-size',
      '12',
      '--device',
      'host',
      '--',
      'sh',
      '-c',
      'echo {batch_size} {accumulation} {checkpointing} {precision} {device} {attempt} $PLIMSOLL_BATCH_SIZE $PLIMSOLL_ATTEMPT',
    ]);
    expect(stdout).toBe('12 1 false fp32 host 1 12 1\n');
  });

  it('leaves stdout to the document with --json', async () => {
    const { stdout, stderr } = await run([
      '--json',
      '--',
      'sh',
      '-c',
      'echo out; echo err >&2; exit 3',
    ]);
    expect(stderr).toBe('out\nerr\n');
    const report: RunReport = JSON.parse(stdout);
    expect(report).toMatchObject({ outcome: 'failed', exitCode: 3 });
    expect(report.attempts).toHaveLength(1);
  });

  it('gets the environment of production where that is asked for; the report lists the changes', async () => {
    // As `submit` to a cluster hands it on.
    const earlier = {
      name: 'NCCL_DEBUG',
      from: 'INFO',
      to: null,
      by: 'submit',
      reason: 'It logs.',
    };
    const ended = await command.run(
      [
        'run',
        '--env-changes',
        JSON.stringify([earlier]),
        '--env-mode',
        'production',
        '--json',
        '--',
        'sh',
        '-c',
        'echo "[$CUDA_LAUNCH_BLOCKING]"',
      ],
      { environment: { ...environment(), CUDA_LAUNCH_BLOCKING: '1' } },
    );
    expect(ended.stderr).toMatch(/^plimsoll: CUDA_LAUNCH_BLOCKING=1 was removed .*\n.*\n\[\]\n$/);
    const { environmentChanges, notes }: RunReport = JSON.parse(ended.stdout);
    expect(environmentChanges).toEqual([
      earlier,
      expect.objectContaining({ name: 'CUDA_LAUNCH_BLOCKING', from: '1', to: null, by: 'run' }),
      expect.objectContaining({ name: 'PYTORCH_CUDA_ALLOC_CONF', from: null, by: 'run' }),
    ]);
    expect(notes.join()).not.toContain('CUDA_LAUNCH_BLOCKING');
  });

  it('learns that its reader left, as it would without us', async () => {
    const { stdout } = await command.run(
      ['run', '--', 'sh', '-c', 'while echo y; do :; done; echo no'],
      {
        environment: environment(),
        onOutput: (_, running) => running.closeStdout(),
      },
    );
    expect(stdout).not.toContain('no');
    expect(livingWith(`TEST_MARK=${command.folder()}`)).toEqual([]);
  });

  it('leaves no process behind, not even a daemon that left its parents', async () => {
    const { stdout } = await run([
      '--grace',
      '1',
      '--',
      'sh',
      '-c',
      'sleep 600 & (setsid sleep 601 >/dev/null 2>&1 &); echo x',
    ]);
    expect(stdout).toBe('x\n');
    expect(livingWith(`TEST_MARK=${command.folder()}`)).toEqual([]);
  });

  it('is refused when it is not there', async () => {
    const ended = await run(['--', 'no-such-program']);
    expect(ended.exitCode).toBe(2);
    expect(ended.stderr).toContain('no-such-program');
    expect((await run([])).stderr).toContain('no-command');
    expect((await run(['--', 'echo', '{batch_size}'])).stderr).toContain('unknown-batch-size');
  });
});

describe('a program that runs out of memory', () => {
  const method = canLimitByCgroup() ? 'a cgroup' : 'the address space';
  // Node reserves more than a gigabyte before it does anything.
  const [memory, batch] = method === 'a cgroup' ? ['160MiB', 32] : ['2GiB', 256];

  it(`at a limit that ${method} holds is recovered with the same effective batch`, async () => {
    const report = join(command.folder(), 'report.json');
    const { stdout, stderr, exitCode } = await run([
      '--memory',
      memory,
      '--device',
      'host',
      '--batch-size',
      String(batch),
      '--report',
      report,
      '--',
      node,
      'take.mjs',
      '{batch_size}',
      '{accumulation}',
    ]);
    expect(exitCode).toBe(0);
    const { attempts, outcome }: RunReport = JSON.parse(readFileSync(report, 'utf8'));
    expect(outcome).toBe('succeeded');
    expect(attempts.length).toBeGreaterThan(1);
    const [first] = attempts;
    const last = attempts.at(-1);
    expect(first?.outOfMemory?.kind).toBe(method === 'a cgroup' ? 'killed-at-limit' : 'node');
    expect(first?.limit.by).toMatch(method === 'a cgroup' ? /^cgroup-v/ : /^address-space$/);
    expect(first?.rungs.map(({ rung }) => rung)).toEqual(['smaller-microbatch']);
    expect(last?.outOfMemory).toBeNull();
    const { batch_size: size, accumulation } = last?.settings ?? {};
    expect(Number(size) * Number(accumulation)).toBe(batch);
    expect(stdout).toContain(`fits ${size}`);
    expect(stderr).toMatch(
      method === 'a cgroup' ? /killed by the kernel at its .* limit/ : /out of memory \(node\)/,
    );
    expect(leftCgroups(runIds(home()))).toEqual([]);
  });

  it('is not tried again when it declared nothing', async () => {
    const { stdout, exitCode } = await run([
      '--memory',
      memory,
      '--device',
      'host',
      '--json',
      '--',
      node,
      'take.mjs',
      String(batch),
      '1',
    ]);
    const report: RunReport = JSON.parse(stdout);
    expect(report.attempts).toHaveLength(1);
    expect(report.attempts[0]?.outOfMemory).not.toBeNull();
    expect(report.notes.join()).toContain('Nothing left to try: the command has no {batch_size}.');
    expect(exitCode).toBe(report.exitCode);
  });

  it('is named with what it held, if it lived long enough to be read', async () => {
    const commands: (string | undefined)[] = [];
    // A machine under load reads less often.
    for (const seconds of [1, 10, 60]) {
      const options = ['--memory', memory, '--device', 'host', '--json'];
      const program = [node, 'take.mjs', String(batch), '1', String(seconds)];
      const { stdout } = await run([...options, '--', ...program]);
      const { attempts }: RunReport = JSON.parse(stdout);
      expect(attempts[0]?.outOfMemory).not.toBeNull();
      commands.push(attempts[0]?.holders?.processes[0]?.command);
      if (commands.at(-1) !== undefined) break;
    }
    expect(commands.at(-1)).toContain('take.mjs');
  });

  it('is known by its own words where there is no limit', async () => {
    const { stdout } = await run([
      '--json',
      '--attempts',
      '2',
      '--batch-size',
      '4',
      '--',
      'sh',
      '-c',
      'echo "RuntimeError: CUDA error: out of memory" >&2; exit {batch_size}',
    ]);
    const { attempts, exitCode, notes }: RunReport = JSON.parse(stdout);
    expect(attempts.map(({ outOfMemory }) => outOfMemory?.kind)).toEqual([
      'cuda-driver',
      'cuda-driver',
    ]);
    expect(attempts.map(({ settings }) => settings.batch_size)).toEqual([4, 2]);
    expect(exitCode).toBe(2);
    expect(notes.join()).toContain('--attempts');
  });

  it('is not one that was killed by hand', async () => {
    const { stdout } = await run([
      '--memory',
      memory,
      '--device',
      'host',
      '--batch-size',
      '4',
      '--json',
      '--',
      'sh',
      '-c',
      'kill -9 $$',
    ]);
    const { attempts, outcome }: RunReport = JSON.parse(stdout);
    expect(attempts.map(({ outOfMemory, exitCode }) => [outOfMemory, exitCode])).toEqual([
      [null, 137],
    ]);
    expect(outcome).toBe('failed');
  });
});

describe('signals', () => {
  const listen = `
    let count = 0;
    for (const name of ['SIGINT', 'SIGTERM', 'SIGUSR1']) process.on(name, () => {
      console.log('got', name, ++count);
      if (name !== 'SIGUSR1') setTimeout(() => process.exit(9), 500);
    });
    setInterval(() => {}, 1000);
    console.log('ready');`;

  it('to us alone reach the program once, and end the run as interrupted', async () => {
    const sent = new Set<string>();
    const once = (name: 'SIGUSR1' | 'SIGTERM', kill: (signal: NodeJS.Signals) => void) => {
      if (sent.has(name)) return;
      sent.add(name);
      kill(name);
    };
    const ended = await command.run(['run', '--json', '--', node, '-e', listen], {
      environment: environment(),
      onOutput({ stderr }, running) {
        if (stderr.includes('ready')) once('SIGUSR1', (signal) => running.kill(signal));
        if (stderr.includes('got SIGUSR1')) once('SIGTERM', (signal) => running.kill(signal));
      },
    });
    expect(ended.stderr).toBe('ready\ngot SIGUSR1 1\ngot SIGTERM 2\n');
    expect(ended.exitCode).toBe(9);
    const report: RunReport = JSON.parse(ended.stdout);
    expect(report.outcome).toBe('interrupted');
  });

  it('by Ctrl-C in a terminal reach it once, and the terminal is a terminal to it', async () => {
    const tty = `console.log([process.stdin, process.stdout, process.stderr].map((s) => s.isTTY).join(' '), String(process.stdout.columns));
      process.stdout.on('resize', () => console.log('now', String(process.stdout.columns)));`;
    const pty = openPty([node, command.path(), 'run', '--', node, '-e', tty + listen], {
      columns: 77,
      rows: 20,
      cwd: command.folder(),
      environment: environment(),
    });
    await pty.shows('ready');
    expect(pty.output()).toContain('true true true 77');
    pty.resize(66, 20);
    await pty.shows('now 66');
    pty.send('\u0003');
    const { exitCode, output, cooked } = await pty.end;
    expect(output.match(/got SIGINT/g)).toHaveLength(1);
    expect(exitCode).toBe(9);
    expect(cooked).toBe(true);
  });

  it('asked three times, ends what will not listen', async () => {
    // Each time is answered before the next: two that come at once count as one, and one more after the end
    // would be for us alone.
    let asked = 0;
    const deaf =
      "for (const n of ['SIGINT', 'SIGTERM']) process.on(n, () => console.log('no')); setInterval(() => {}, 9); console.log('ready')";
    const ended = await command.run(['run', '--', node, '-e', deaf], {
      environment: environment(),
      onOutput({ stdout }, running) {
        const answered = stdout.split('no\n').length - 1;
        if (!stdout.includes('ready\n') || answered < asked) return;
        asked++;
        setTimeout(() => running.kill('SIGTERM'), 600);
      },
    });
    expect(asked).toBe(3);
    expect(ended.exitCode).toBe(137);
    expect(livingWith(`TEST_MARK=${command.folder()}`)).toEqual([]);
  });
});

describe('a keeper or a drainer that is killed', () => {
  it('takes nothing from the job: it goes on, and its exit code is known', async () => {
    const gate = join(command.folder(), 'gate');
    let killed = false;
    const { stdout, exitCode } = await command.run(
      [
        'run',
        '--',
        'sh',
        '-c',
        `echo ready; while [ ! -e ${gate} ]; do sleep 0.05; done; echo bye; exit 6`,
      ],
      {
        environment: environment(),
        onOutput(soFar) {
          if (killed || !soFar.stdout.includes('ready')) return;
          killed = true;
          const id = runIds(home()).at(-1) ?? '';
          process.kill(Number(textOf(join(home(), 'runs', id, 'attempt-1.keeper'))), 'SIGKILL');
          const drainers = livingWith(`TEST_MARK=${command.folder()}`).filter((pid) =>
            textOf(`/proc/${pid}/cmdline`)?.includes('plimsoll-drainer'),
          );
          expect(drainers.length).toBeGreaterThan(0);
          for (const pid of drainers) process.kill(pid, 'SIGKILL');
          writeFileSync(gate, '');
        },
      },
    );
    expect(stdout).toBe('ready\nbye\n');
    expect(exitCode).toBe(6);
    const files = readdirSync(join(home(), 'runs', runIds(home()).at(-1) ?? ''));
    expect(files.filter((name) => name.endsWith('.new'))).toEqual([]);
    expect(livingWith(`TEST_MARK=${command.folder()}`)).toEqual([]);
  });
});

describe('the run folder', () => {
  it('names the launchers that ran the work elsewhere', async () => {
    const srun = script('srun', '#!/bin/sh\n"$@"\n');
    chmodSync(srun, 0o755);
    const inside = script('job.sh', `${srun} sleep 1; true`);
    const launchersOf = async (argv: readonly string[]) => {
      await run(['--', ...argv]);
      const id = runIds(home()).at(-1) ?? '';
      const [attempt] = JSON.parse(
        readFileSync(join(home(), 'runs', id, 'report.json'), 'utf8'),
      ).attempts;
      return attempt.launchers;
    };
    expect(await launchersOf([srun, 'true'])).toEqual(['srun']);
    expect(await launchersOf(['sh', '-c', `cd /; ${srun} true`])).toEqual(['srun']);
    expect(await launchersOf(['sh', inside])).toEqual(['srun']);
    expect(await launchersOf([node, '-e', '0', 'srun'])).toBeUndefined();
  });

  it('holds the report as data and as a page', async () => {
    await run(['--', 'true']);
    const id = runIds(home()).at(-1) ?? '';
    const page = await until(() => textOf(join(home(), 'runs', id, 'report.html')));
    expect(page).toContain('<!doctype html>');
    expect(JSON.parse(readFileSync(join(home(), 'runs', id, 'report.json'), 'utf8'))).toMatchObject(
      {
        id,
        command: ['true'],
        outcome: 'succeeded',
      },
    );
  });
});
