import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../support/project-files.js';
import { killWhen, useCommand } from './command.js';
import { openPty } from './pty.js';
import { type Home, useHome } from './served.js';

const command = useCommand();
const config = join(root, 'bench/truth/configs/gpt2.json');

async function stateOf(home: Home, id: string): Promise<unknown> {
  return (await home.json(['jobs', id]))['state'];
}

describe('a job, from submit to its end', () => {
  it('is followed, listed, shown and read', async () => {
    const home = useHome(command);
    await home.serve([], { PYTORCH_NO_CUDA_MEMORY_CACHING: '1' });
    const shell = ['sh', '-c', 'echo out; echo err >&2; echo "$SEED $SECRET $PWD"'];
    const submitted = await home.run(
      [
        'submit',
        '--follow',
        '--memory',
        '64MiB',
        '--name',
        'first',
        '--env',
        'SEED=7',
        '--',
        ...shell,
      ],
      { environment: { SECRET: 'hidden' } },
    );
    expect(submitted.stdout).toBe(`out\nerr\n7  ${command.folder()}\n`);
    expect(submitted.stderr).toMatch(/job 1 \(first\) (waits for|runs; reserved:) 64\.0 MiB/);
    expect(submitted.stderr).toMatch(
      /plimsoll: job 1 \(first\) succeeded \(ran .*64\.0 MiB reserved/,
    );
    expect(submitted.exitCode).toBe(0);

    const table = await home.run(['jobs']);
    expect(table.stdout).toMatch(/^1 +first +succeeded +64\.0 MiB stated +host +ran \d+ s/m);
    expect(table.stdout).toContain('\n1 succeeded.\n');
    const list = await home.json(['jobs', '--state', 'succeeded']);
    expect(list).toMatchObject({ jobs: [{ id: '1' }], counts: { succeeded: 1 } });
    expect(await home.json(['jobs', '--state', 'failed,waiting'])).toMatchObject({ jobs: [] });
    // What was changed in its environment, and by which command.
    expect((await home.json(['jobs', '1']))['environmentChanges']).toEqual([
      expect.objectContaining({ name: 'PYTORCH_CUDA_ALLOC_CONF', from: null, by: 'submit' }),
      expect.objectContaining({
        name: 'PYTORCH_NO_CUDA_MEMORY_CACHING',
        from: '1',
        to: null,
        by: 'serve',
      }),
    ]);
    const one = await home.run(['jobs', '1']);
    expect(one.stdout).toMatch(/^changed +PYTORCH_CUDA_ALLOC_CONF=.* was set in the environment/m);
    expect(one.stdout).toContain(`in         ${command.folder()}\n`);
    expect(one.stdout).toMatch(/^attempt 1 +on host, .*exit code 0$/m);

    expect((await home.run(['logs', '1'])).stdout).toBe(submitted.stdout);
    expect((await home.run(['logs', '--tail', '2', '1'])).stdout).toBe(
      `err\n7  ${command.folder()}\n`,
    );
    expect((await home.run(['logs', '-f', '--tail', '0', '1'])).exitCode).toBe(0);
    expect(await home.json(['logs', '1'])).toMatchObject({ id: '1', log: submitted.stdout });
  });

  it('that fails gives exit code 4 to those who wait, and 0 to those who do not', async () => {
    const home = useHome(command);
    await home.serve();
    const sent = await home.run(['submit', '--memory', '64MiB', '--', 'sh', '-c', 'exit 7']);
    expect(sent.exitCode).toBe(0);
    expect(sent.stdout).toMatch(/^Job 1 \(.*\) (waits|runs).*"plimsoll logs -f 1" follows it\.\n$/);
    const followed = await home.run(['logs', '-f', '1']);
    expect(followed).toMatchObject({ exitCode: 4, stdout: '' });
    expect(followed.stderr).toMatch(/job 1 \(.*\) failed .*exit code 7/);
    const waited = await home.run([
      'submit',
      '--wait',
      '--memory',
      '64MiB',
      '--json',
      '--',
      'false',
    ]);
    expect(waited.exitCode).toBe(4);
    expect(JSON.parse(waited.stdout)).toMatchObject({
      state: 'failed',
      attempts: [{ exitCode: 1 }],
    });
  });

  it('that never fits is refused with exit code 1', async () => {
    const home = useHome(command);
    await home.serve();
    for (const more of [[], ['--wait'], ['--follow']]) {
      const argv = ['submit', ...more, '--memory', '9000GiB', '--', 'true'];
      const { exitCode, stdout, stderr } = await home.run(argv);
      expect(exitCode).toBe(1);
      const said = `${stdout}${stderr}`;
      expect(said).toMatch(/^(plimsoll: )?job \d \(true\) was refused: It needs 8\.8 TiB/i);
      expect(said.trim().split('\n')).toHaveLength(1);
    }
  });

  it('goes on after Ctrl-C of the one who follows it, and is cancelled by name', async () => {
    const home = useHome(command);
    await home.serve();
    const argv = [
      'submit',
      '--follow',
      '--memory',
      '64MiB',
      '--',
      'sh',
      '-c',
      'echo up; sleep 600',
    ];
    const { exitCode, stderr } = await home.run(argv, {
      onOutput: killWhen(({ stdout }) => stdout.includes('up'), 'SIGINT'),
    });
    expect(exitCode).toBe(130);
    expect(stderr).toMatch(/job 1 \(.*\) goes on\. .*"plimsoll cancel 1" ends it\.\n$/);
    expect(await stateOf(home, '1')).toBe('running');

    const waiting = await home.json(['submit', '--memory', '64MiB', '--', 'sleep', '600']);
    const ids = ['1', String(waiting['id'])];
    const cancelled = await home.run(['cancel', ...ids, '77']);
    expect(cancelled.stdout).toMatch(/^Job 1 \(.*\) (was asked to end|is cancelled)\.\nJob 2 /);
    expect(cancelled.stderr).toMatch(/^plimsoll: unknown-job: .*77/);
    expect(cancelled.exitCode).toBe(2);
    for (const id of ids) {
      expect((await home.run(['logs', '-f', id])).exitCode).toBe(4);
      expect(await stateOf(home, id)).toBe('cancelled');
    }
    const again = await home.run(['cancel', '1', '--json']);
    expect(again.exitCode).toBe(1);
    expect(JSON.parse(again.stdout)).toMatchObject({
      jobs: [],
      errors: [{ id: '1', code: 'job-has-ended' }],
    });
  });

  it('goes on while the server is killed, and a follower misses nothing', async () => {
    const home = useHome(command);
    const first = await home.serve();
    const { port } = new URL(first.url);
    const gate = join(home.path, 'gate');
    const script = `echo before; while [ ! -e ${gate} ]; do sleep 0.1; done; echo after`;
    let step: 'start' | 'kill' | 'back' = 'start';
    const followed = await home.run(
      ['submit', '--follow', '--memory', '64MiB', '--', 'sh', '-c', script],
      {
        onOutput({ stdout, stderr }) {
          if (step === 'start' && stdout.includes('before')) {
            step = 'kill';
            first.kill('SIGKILL');
          } else if (step === 'kill' && stderr.includes('does not answer')) {
            step = 'back';
            writeFileSync(gate, '');
            void home.serve(['--port', port]);
          }
        },
      },
    );
    expect(followed).toMatchObject({ stdout: 'before\nafter\n', exitCode: 0 });
    expect(followed.stderr).toContain('plimsoll: The server is back.');
    const { attempts } = await home.json(['jobs', '1']);
    expect(attempts).toHaveLength(1);
  });

  it('that runs is left running by a server that closes, which says so', async () => {
    const home = useHome(command);
    const first = await home.serve();
    await home.run(['submit', '--memory', '64MiB', '--', 'sleep', '600']);
    await untilTrue(async () => (await stateOf(home, '1')) === 'running');
    first.kill('SIGINT');
    expect(await first.ended).toBe(0);
    expect(first.stderr()).toContain('plimsoll: closed. 1 job goes on;');
    const second = await home.serve();
    expect(second.ready).toMatchObject({ counts: { running: 1 } });
    expect((await home.run(['cancel', '1'])).exitCode).toBe(0);
    expect((await home.run(['logs', '-f', '1'])).exitCode).toBe(4);
  });

  it.each([
    [['--memory', '0', '--', 'true'], 'bad-option: --memory cannot be "0".'],
    [['--memory', 'much', '--', 'true'], 'bad-option: --memory cannot be "much".'],
    [['--gpus', '-1', '--', 'true'], 'bad-option: --gpus cannot be "-1".'],
    [['--priority', 'high', '--', 'true'], 'bad-option: --priority cannot be "high".'],
    [['--timeout', '0', '--', 'true'], 'bad-option: --timeout cannot be "0".'],
    [['--env', '1=2', '--', 'true'], 'bad-option: --env cannot be "1=2".'],
    [['--env', 'NOT_SET_AT_ALL', '--', 'true'], 'bad-option: --env names NOT_SET_AT_ALL'],
    [['--cwd', 'nowhere', '--', 'true'], 'bad-option: --cwd cannot be "nowhere"'],
    [['--batch-size', '8', '--', 'true'], 'bad-usage: '],
    [['--model', 'gpt2', '--', 'true'], 'bad-usage: No --batch was given.'],
    [['--seq', '8', '--batch', '8', '--', 'true'], 'bad-usage: No model was given.'],
    [['--memory', '1GiB', '--model', 'm', '--', 'true'], 'bad-usage: Both --memory and a workload'],
    [['--server', 'nowhere', '--', 'true'], 'bad-option: --server cannot be "nowhere".'],
    [['--', 'no-such-program-at-all'], 'no-such-program: '],
    [[], 'no-command: '],
  ])('is refused before it is sent with %j', async (argv, message) => {
    const { stdout, stderr, exitCode } = await useHome(command).run(['submit', ...argv]);
    expect(stderr).toContain(message);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });

  it('with a model is estimated, where it is known or not', async () => {
    const home = useHome(command);
    await home.serve(['--simulate', 'steady', '--python', './none']);
    const workload = ['--model', config, '--batch', '1', '--seq', '64', '--precision', 'bf16'];
    const job = await home.json([
      'submit',
      ...workload,
      '--gpus',
      '0',
      '--',
      'true',
      '{batch_size}',
    ]);
    expect(job).toMatchObject({ need: { basis: 'estimated', estimatedBytes: expect.any(Number) } });
    const nowhere = ['--model', 'nowhere.json', '--batch', '1', '--seq', '64'];
    const { exitCode, stderr } = await home.run(['submit', ...nowhere, '--', 'true']);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^plimsoll: no-file: /);
  });
});

describe('plimsoll jobs --watch', () => {
  it('shows the jobs live on a terminal, and gives it back', async () => {
    const home = useHome(command);
    await home.serve();
    await home.run(['submit', '--memory', '64MiB', '--name', 'watched', '--', 'sleep', '600']);
    const pty = openPty([process.execPath, command.path(), 'jobs', '--watch'], {
      columns: 100,
      rows: 20,
      cwd: command.folder(),
      environment: home.environment,
    });
    await pty.shows(/watched +.*running/);
    await home.run(['cancel', '1']);
    await pty.shows('cancelled');
    pty.send('q');
    const { exitCode, output, cooked } = await pty.end;
    expect({ exitCode, cooked }).toEqual({ exitCode: 0, cooked: true });
    expect(output).toContain('\u001B[?1049l');
  });

  it('prints the list each time that it changed where there is no terminal', async () => {
    const home = useHome(command);
    await home.serve();
    let step = 0;
    const { stdout, exitCode } = await home.run(['jobs', '--watch'], {
      onOutput({ stdout: soFar }, running) {
        if (step === 0 && soFar.includes('There is no job yet')) {
          step = 1;
          void home.run(['submit', '--memory', '64MiB', '--name', 'late', '--', 'true']);
        } else if (step === 1 && soFar.includes('1 succeeded.')) {
          step = 2;
          running.kill('SIGINT');
        }
      },
    });
    expect(exitCode).toBe(130);
    expect(stdout).toMatch(/^There is no job yet.*\n\n(?:.|\n)*late +succeeded/);
  });
});

async function untilTrue(look: () => Promise<boolean>): Promise<void> {
  while (!(await look())) await new Promise((resolve) => setTimeout(resolve, 50));
}

describe('options of a cluster', () => {
  it.each([
    ['before', ['--time', '5', '--memory', '8GiB', '--name=ours', '--env', 'A=1']],
    ['behind', ['--memory', '8GiB', '--name=ours', '--env', 'A=1', '--time', '5']],
    ['around', ['--time=5', '--memory=8GiB', '-q', 'long', '--name', 'ours', '--env', 'A=1']],
  ])('stand %s our own', async (_, options) => {
    const tools = join(command.folder(), 'slurm');
    mkdirSync(tools, { recursive: true });
    const says = {
      sinfo: readFileSync(join(root, 'test/fixtures/slurm/sinfo-22.05.json'), 'utf8'),
      scontrol: 'PartitionName=gpu Default=YES State=UP',
    };
    for (const [name, text] of Object.entries(says)) {
      writeFileSync(join(tools, name), `#!/bin/sh\ncat <<'E'\n${text}\nE\n`, { mode: 0o755 });
    }
    const { stdout, stderr, exitCode } = await command.run(
      ['submit', ...options, '--engine', 'slurm', '--dry-run', '--', 'true', '--memory', '1'],
      { environment: { PATH: `${tools}:${process.env['PATH']}` } },
    );
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
    expect(stdout).toContain('#SBATCH --job-name=ours\n');
    expect(stdout).toContain('#SBATCH --gres=shard:16\n');
    expect(stdout).toContain('#SBATCH --time=5\n');
    expect(stdout).not.toContain('--memory');
  });
});
