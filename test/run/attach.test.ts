import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { beforeAll, describe, expect, it } from 'vitest';
import { killQuietly } from '../../src/run/processes/end-tree.js';
import type { RunReport } from '../../src/run/types.js';
import { cleanEnvironment, useCommand } from '../cli/command.js';
import { leftCgroups, livingWith, runIds, textOf, until } from './running.js';

/** `PLIMSOLL_TEST_KILLS=50` for the long one. */
const kills = Number(process.env['PLIMSOLL_TEST_KILLS'] ?? 4);
const samples = 400;

const command = useCommand();
const folder = () => command.folder();
const home = () => join(folder(), 'home');
const environment = (more = {}) => ({ PLIMSOLL_HOME: home(), TEST_MARK: folder(), ...more });

/** Starts a run in the background; only its supervisor is ours to kill. */
function start(argv: readonly string[], env = {}) {
  const child = spawn(process.execPath, [command.path(), 'run', ...argv], {
    cwd: folder(),
    env: cleanEnvironment(environment(env)),
    stdio: 'ignore',
  });
  return {
    pid: child.pid ?? 0,
    ended: new Promise<number | null>((resolve) => child.once('close', resolve)),
  };
}

function attach(argv: readonly string[] = []) {
  return command.run(['run', '--attach', '--json', ...argv], { environment: environment() });
}

/** Helpers of a supervisor that was killed end by themselves, some time later. */
async function nothingLeft(): Promise<void> {
  await until(() => (livingWith(`TEST_MARK=${folder()}`).length === 0 ? true : undefined));
}

beforeAll(async () => {
  // Works through samples in batches, a file for each; where it stands is saved. After the first it waits
  // for a file, where one is named.
  writeFileSync(
    join(folder(), 'work.ts'),
    `import { existsSync, writeFileSync, renameSync } from 'node:fs';
     import { adaptiveBatches } from ${JSON.stringify(fileURLToPath(new URL('../../src/batches/adaptive-batches.ts', import.meta.url)))};
     function* numbers() { for (let i = 0; i < ${samples}; i++) yield i; }
     const [, , out, pause, gate] = process.argv;
     const batches = adaptiveBatches(numbers(), { batchSize: 8, positionFile: out + '/position.json', memoryPercent: () => 60 });
     for await (const batch of batches) {
       await new Promise((resolve) => setTimeout(resolve, Number(pause)));
       const file = out + '/batch-' + batch[0];
       writeFileSync(file + '.new', JSON.stringify(batch));
       renameSync(file + '.new', file);
       console.log('x'.repeat(3000));
       while (gate && !existsSync(gate)) await new Promise((resolve) => setTimeout(resolve, 20));
     }
     writeFileSync(out + '/finished', 'yes');
     process.exit(3);`,
  );
  await build({
    entryPoints: [join(folder(), 'work.ts')],
    outfile: join(folder(), 'work.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['koffi'],
  });
});

function everySample(out: string): readonly number[] {
  return readdirSync(out)
    .filter((name) => /^batch-\d+$/.test(name))
    .flatMap((name): number[] => JSON.parse(readFileSync(join(out, name), 'utf8')))
    .toSorted((a, b) => a - b);
}

describe('when our own process is killed', () => {
  it('the job goes on, and its end is known to the next supervisor', async () => {
    const out = join(folder(), 'out');
    mkdirSync(out);
    const gate = join(out, 'gate');
    const { pid, ended } = start(['--', process.execPath, 'work.mjs', out, '20', gate]);
    await until(() => textOf(join(out, 'batch-0')));
    process.kill(pid, 'SIGKILL');
    await ended;
    writeFileSync(gate, '');
    const { stdout, exitCode } = await attach();
    expect(exitCode).toBe(3);
    const report: RunReport = JSON.parse(stdout);
    expect(report).toMatchObject({ outcome: 'failed', exitCode: 3 });
    expect(report.notes.join()).toContain('taken up again');
    expect(existsSync(join(out, 'finished'))).toBe(true);
    expect(everySample(out)).toEqual(Array.from({ length: samples }, (_, i) => i));
    await nothingLeft();
  });

  it('a job that ran out of memory meanwhile is recovered by the one who takes it up', async () => {
    const gate = join(folder(), 'gate');
    const line = `while [ ! -e ${gate} ]; do sleep 0.05; done; [ {batch_size} = 2 ] || { echo MemoryError >&2; exit 1; }`;
    const before = runIds(home());
    const { pid, ended } = start(['--batch-size', '4', '--', 'sh', '-c', line]);
    const id = await until(() => runIds(home()).find((one) => !before.includes(one)));
    await until(() => textOf(join(home(), 'runs', id, 'attempt-1.pid')));
    process.kill(pid, 'SIGKILL');
    await ended;
    writeFileSync(gate, '');
    const { stdout } = await attach();
    const report: RunReport = JSON.parse(stdout);
    expect(report).toMatchObject({ id, outcome: 'succeeded', exitCode: 0 });
    expect(report.attempts.map(({ outOfMemory }) => outOfMemory?.kind)).toEqual([
      'python',
      undefined,
    ]);
    await nothingLeft();
  });

  it('a run is not taken up that is supervised, or is not there', async () => {
    const gate = join(folder(), 'gate2');
    const line = `while [ ! -e ${gate} ]; do sleep 0.05; done`;
    const before = runIds(home());
    const { ended } = start(['--', 'sh', '-c', line]);
    const id = await until(() => runIds(home()).find((one) => !before.includes(one)));
    await until(() => textOf(join(home(), 'runs', id, 'attempt-1.pid')));
    const refused = await command.run(['run', '--attach', id], { environment: environment() });
    expect(refused.stderr).toContain('run-is-supervised');
    const unknown = await command.run(['run', '--attach', '20200101-000000-0000'], {
      environment: environment(),
    });
    expect(unknown.stderr).toContain('unknown-run');
    writeFileSync(gate, '');
    expect(await ended).toBe(0);
    const again = await command.run(['run', '--attach', id, '--json'], {
      environment: environment(),
    });
    expect(JSON.parse(again.stdout)).toMatchObject({ id, outcome: 'succeeded' });
  });
});

describe('killed at random, supervisor or job', () => {
  it(`${kills} times: every sample is there, once`, async () => {
    const out = join(folder(), 'random');
    mkdirSync(out);
    const pause = Math.ceil((kills * 1000) / (samples / 8));
    const argv = ['--', process.execPath, 'work.mjs', out, String(pause)];
    for (let kill = 0; kill < kills && !existsSync(join(out, 'finished')); kill++) {
      const before = runIds(home());
      const { pid, ended } = start(argv);
      const id = await until(() => runIds(home()).find((one) => !before.includes(one)));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 800));
      if (kill % 2 === 0) {
        // It may have finished.
        killQuietly(pid, 'SIGKILL');
        await ended;
        // It was killed before it began: nothing of it runs, and there is nothing to take up.
        if (!existsSync(join(home(), 'runs', id, 'journal.jsonl'))) continue;
      }
      // Then the job, too: what it had done must stay done.
      const job = await until(
        () =>
          textOf(join(home(), 'runs', id, 'attempt-1.pid')) ?? (kill % 2 === 0 ? '0' : undefined),
      );
      if (Number(job) > 0) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 200));
        try {
          process.kill(Number(job), 'SIGKILL');
        } catch {
          // It had finished.
        }
      }
      if (kill % 2 === 0) {
        const { stdout } = await command.run(['run', '--attach', id, '--json'], {
          environment: environment(),
        });
        const report: RunReport = JSON.parse(stdout);
        expect(report.attempts[0]?.outOfMemory).toBeNull();
      } else await ended;
    }
    const last = start(argv);
    expect(await last.ended).toBe(3);
    expect(everySample(out)).toEqual(Array.from({ length: samples }, (_, i) => i));
    await nothingLeft();
    expect(leftCgroups(runIds(home()))).toEqual([]);
  });
});

describe('a limit that a killed run left', () => {
  it('is made again where it was removed before the program began', async () => {
    const before = runIds(home());
    const argv = ['run', '--memory', '64MiB', '--device', 'host', '--', 'sh', '-c', 'exit 7'];
    expect((await command.run(argv, { environment: environment() })).exitCode).toBe(7);
    const id = runIds(home()).find((one) => !before.includes(one)) ?? '';
    const run = join(home(), 'runs', id);
    // As a supervisor leaves it that was killed between writing a start down and doing it.
    const lines = readFileSync(join(run, 'journal.jsonl'), 'utf8').split('\n');
    const started = lines.findIndex((line) => line.includes('"started"'));
    writeFileSync(join(run, 'journal.jsonl'), `${lines.slice(0, started + 1).join('\n')}\n`);
    for (const name of readdirSync(run)) {
      if (/^(attempt-|supervisor-|report)/.test(name)) rmSync(join(run, name), { recursive: true });
    }
    const again = await command.run(['run', '--attach', id], { environment: environment() });
    expect([again.exitCode, again.stderr]).toEqual([7, expect.not.stringContaining('cgroup')]);
    expect(leftCgroups([id])).toEqual([]);
  });

  it('is swept by the next run, and what it had counted is not forgotten', async () => {
    const before = runIds(home());
    // The shell keeps all of it in its memory.
    const gate = join(folder(), 'gate3');
    const grow = `while [ ! -e ${gate} ]; do sleep 0.05; done; x=$(head -c 300000000 /dev/zero | tr "\\0" x); echo \${#x}`;
    const { pid, ended } = start([
      '--memory',
      '64MiB',
      '--device',
      'host',
      '--batch-size',
      '2',
      '--',
      'sh',
      '-c',
      grow,
    ]);
    const id = await until(() => runIds(home()).find((one) => !before.includes(one)));
    await until(() => textOf(join(home(), 'runs', id, 'attempt-1.pid')));
    process.kill(pid, 'SIGKILL');
    await ended;
    writeFileSync(gate, '');
    await until(() => textOf(join(home(), 'runs', id, 'attempt-1.exit')));
    // What the shell had started ends some time later; until then the limit is in use.
    await until(() => (livingWith(`PLIMSOLL_RUN_ID=${id}`).length === 0 ? true : undefined));
    await command.run(['run', '--', 'true'], { environment: environment() });
    expect(leftCgroups([id])).toEqual([]);
    const { stdout } = await command.run(['run', '--attach', id, '--json', '--attempts', '1'], {
      environment: environment(),
    });
    const report: RunReport = JSON.parse(stdout);
    const [first] = report.attempts;
    // Without a cgroup the shell says it in words of its own.
    const expected = first?.limit.by === 'address-space' ? undefined : 'killed-at-limit';
    expect(first?.outOfMemory?.kind).toBe(expected);
  });
});
