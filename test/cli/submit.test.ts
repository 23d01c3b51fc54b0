import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { listKernelFolder } from '../../src/device/kernel-files.js';
import { gpt2TraceText } from '../../src/estimate/trace/traces-for-tests.js';
import { limitOfProcesses, listLimitCgroups } from '../../src/run/limit/cgroup.js';
import { GiB } from '../../src/units/bytes.js';
import { needsCgroups, textOf, until } from '../run/running.js';
import {
  needs,
  needsRoot,
  needsTorch,
  tracingPython as python,
  tracingPython,
} from '../support/needs.js';
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

/** Accounts of every Linux. */
const accounts = { nobody: 65_534, daemon: 1 } as const;
type AccountName = keyof typeof accounts;

/** In Python's place: tells who traces, then does what the test wants; as a job it ends at once. */
const tracingThen = (then: string) => `#!/bin/sh
case "$*" in
  *--state*) echo "state $(id -u)" >> "$NOTES/states"; echo '{"state":"same"}'; exit 0;;
  *plimsoll_trace*) ;;
  *) exit 0;;
esac
while [ "$1" != --output ]; do shift; done
{ id -u; id -G; pwd; echo "$SECRET"; dirname "$2"; } > "$NOTES/$(id -u)"
${then}
`;

interface Need {
  readonly bytes: number;
  readonly basis: string;
  readonly why: string;
}

/** A server with a simulated GPU of 24 GiB, and a user for each account. */
async function serving() {
  const home = useHome(command);
  const work = mkdtempSync(join(tmpdir(), 'plimsoll-traced-'));
  onTestFinished(() => rmSync(work, { recursive: true, force: true }));
  chmodSync(work, 0o755);
  const notes = join(work, 'notes');
  mkdirSync(notes);
  chmodSync(notes, 0o777);
  const rows = [0, 1].map((seconds) => [seconds, 0, 0, 0]);
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  writeFileSync(join(work, 'idle.json'), JSON.stringify({ capacity: 24 * GiB, columns, rows }));
  writeFileSync(join(work, 'trace.jsonl'), gpt2TraceText());
  const server = await home.serve([], { PLIMSOLL_SIMULATE: join(work, 'idle.json'), TMPDIR: work });
  const tokens = new Map<AccountName, string>();
  for (const name of ['nobody', 'daemon'] as const) {
    const { stdout } = await home.run(['users', 'add', name, '--account', name, '--json']);
    tokens.set(name, JSON.parse(stdout).token);
  }
  const script = (then: string) => {
    writeFileSync(join(work, 'python3'), tracingThen(then));
    chmodSync(join(work, 'python3'), 0o755);
    return [join(work, 'python3'), 'train.py'];
  };
  const submit = async (
    name: AccountName,
    words: readonly string[],
    ...options: string[]
  ): Promise<Need> => {
    const own = ['--env', 'SECRET=mine', '--env', `NOTES=${notes}`, '--cwd', work];
    const { stdout, stderr } = await home.run(
      ['submit', '--json', ...own, ...options, '--', ...words],
      { environment: { PLIMSOLL_TOKEN: tokens.get(name) ?? '' } },
    );
    expect(stderr).toBe('');
    const owner = { environment: { PLIMSOLL_TOKEN: tokens.get(name) ?? '' } };
    const { need } = await home.estimated(JSON.parse(stdout).id, owner);
    return JSON.parse(JSON.stringify(need));
  };
  const noted = (name: AccountName) =>
    readFileSync(join(notes, String(accounts[name])), 'utf8').split('\n');
  return { work, notes, server, script, submit, noted };
}

/** The cgroup of the trace that had that folder: it may not be left. */
function cgroupsOf(scratch: string): readonly string[] {
  const name = basename(scratch).replace('plimsoll-', 'plimsoll-run-');
  expect(name).toMatch(/^plimsoll-run-trace-[\da-f-]{36}$/);
  return listLimitCgroups('/proc', listKernelFolder).filter((folder) => basename(folder) === name);
}

/** Or waits for a parent to ask how it ended. */
function hasEnded(pid: number): boolean {
  return / Z |^$/.test(textOf(`/proc/${pid}/stat`) ?? '');
}

const traced = 'The program was traced before its first run.';

describe('a program of another account, submitted with nothing stated', {
  ...needsRoot,
  ...needsCgroups,
}, () => {
  beforeAll(() => {
    const folder = dirname(command.folder());
    chmodSync(folder, 0o755);
    // The checkout may lie where other accounts cannot read.
    rmSync(join(folder, 'python'));
    for (const name of ['plimsoll', 'plimsoll_trace']) {
      cpSync(join(root, 'python', name), join(folder, 'python', name), { recursive: true });
    }
  });

  it('is traced as that account, which alone gets what was found', async () => {
    const { work, script, submit, noted } = await serving();
    const words = script(`cp "${work}/trace.jsonl" "$2"`);
    for (const name of ['nobody', 'daemon'] as const) {
      const need = await submit(name, words);
      expect([need.basis, need.why]).toEqual(['estimated', expect.stringContaining(traced)]);
      const uid = String(accounts[name]);
      const [user, groups, folder, secret, scratch = ''] = noted(name);
      expect([user, groups, folder, secret]).toEqual([uid, uid, work, 'mine']);
      expect(scratch).toMatch(/^\/tmp\/plimsoll-trace-/);
      expect(existsSync(scratch)).toBe(false);
      expect(cgroupsOf(scratch)).toEqual([]);
    }
  });

  it('is traced once a day for each account, whose processes look whether its files have changed', async () => {
    const { work, notes, script, submit } = await serving();
    const files = { read: [], looked: [], listed: [], modules: [] };
    const [end = '', ...before] = gpt2TraceText().trim().split('\n').toReversed();
    const lines = [...before.toReversed(), JSON.stringify({ ...JSON.parse(end), files })];
    writeFileSync(join(work, 'trace.jsonl'), `${lines.join('\n')}\n`);
    const words = script(`echo "trace $(id -u)" >> "$NOTES/states"; cp "${work}/trace.jsonl" "$2"`);
    writeFileSync(join(notes, 'states'), '');
    chmodSync(join(notes, 'states'), 0o666);
    const seen = () => readFileSync(join(notes, 'states'), 'utf8').trim().split('\n');
    const { nobody, daemon } = accounts;
    expect((await submit('nobody', words)).basis).toBe('estimated');
    expect(seen()).toEqual([`trace ${nobody}`, `state ${nobody}`]);
    expect((await submit('nobody', words)).basis).toBe('estimated');
    expect(seen().slice(2)).toEqual([`state ${nobody}`]);
    expect((await submit('daemon', words)).basis).toBe('estimated');
    expect(seen().slice(3)).toEqual([`trace ${daemon}`, `state ${daemon}`]);
  });

  it('waits for the one before it of the same account', async () => {
    const { work, notes, script, submit } = await serving();
    const words = script(`mkdir "$NOTES/one" || touch "$NOTES/both"
sleep 1; rmdir "$NOTES/one"; cp "${work}/trace.jsonl" "$2"`);
    const both = await Promise.all([submit('nobody', words), submit('nobody', words)]);
    expect(both.map(({ basis }) => basis)).toEqual(['estimated', 'estimated']);
    expect(existsSync(join(notes, 'both'))).toBe(false);
  });

  it('gets nothing to read that its account could not read itself', async () => {
    const { work, script, submit, noted } = await serving();
    const hidden = join(work, 'hidden');
    mkdirSync(hidden, { mode: 0o700 });
    cpSync(join(work, 'trace.jsonl'), join(hidden, 'trace.jsonl'));
    const need = await submit('nobody', script(`ln -s "${hidden}/trace.jsonl" "$2"`));
    expect([need.basis, need.why]).toEqual(['unknown', expect.stringContaining('left no trace')]);
    // What it left behind is removed as its account: links are not followed.
    expect(existsSync(join(hidden, 'trace.jsonl'))).toBe(true);
    expect(existsSync(noted('nobody')[4] ?? '')).toBe(false);
  });

  it('fills no memory of the server with what it calls a trace', async () => {
    const { work, script, submit } = await serving();
    // Lines that a trace may have, and far too many of them.
    const line = JSON.stringify(['c', 'x'.repeat(1000)]);
    const endless = `{ head -n 1 "${work}/trace.jsonl"; yes '${line}' | head -n 200000; } > "$2"`;
    // However long this machine takes to write them.
    const need = await submit('nobody', script(endless), '--estimate-timeout', '600');
    expect(need.basis).toBe('unknown');
    expect(need.why).toContain('It could not be traced: The trace is larger than 128 MiB.');
  });

  it('is ended with all that it started when its time is over, or the server is killed', async () => {
    const { notes, server, script, submit, noted } = await serving();
    const words = script('setsid sleep 1000 & echo $! > "$NOTES/away"\nexec sleep 1000');
    const need = await submit('nobody', words, '--estimate-timeout', '10');
    expect(need.why).toContain('The trace took longer than 10 s and was ended.');
    const away = Number(readFileSync(join(notes, 'away'), 'utf8'));
    expect(hasEnded(away)).toBe(true);
    expect(cgroupsOf(noted('nobody')[4] ?? '')).toEqual([]);

    rmSync(join(notes, 'away'));
    const stays = script(
      'echo $$ > "$NOTES/pid.new"; mv "$NOTES/pid.new" "$NOTES/pid"\nexec sleep 1000',
    );
    const waiting = submit('nobody', stays).catch(() => undefined);
    const pid = await until(() =>
      existsSync(join(notes, 'pid')) ? Number(readFileSync(join(notes, 'pid'), 'utf8')) : undefined,
    );
    server.kill('SIGKILL');
    await until(() => (hasEnded(pid) ? true : undefined));
    await waiting;
    // Two empty folders stay: its own, and one in the kernel's tree.
    const scratch = noted('nobody')[4] ?? '';
    const left = cgroupsOf(scratch);
    expect(left).toHaveLength(1);
    // A cgroup can be removed when the last of its processes is gone, and not only the one above.
    const inUse = () => left.some((folder) => limitOfProcesses(folder).pids().length > 0);
    await until(() => (inUse() ? undefined : true));
    for (const folder of [scratch, ...left]) rmdirSync(folder);
  });

  // The shell is without the rights that setpriv still has when it starts it.
  const asNobody = ['--reuid=65534', '--regid=65534', '--clear-groups', 'sh', '-c'];
  const find = '"$0" -c "from importlib.util import find_spec; exit(not find_spec(\'torch\'))"';
  const canRun = () =>
    spawnSync('setpriv', [...asNobody, find, tracingPython], { cwd: '/' }).status === 0;
  it('is really traced with its own rights', {
    ...needs(canRun(), 'a .venv that every account can read'),
    ...needsTorch,
  }, async () => {
    const { work, submit } = await serving();
    cpSync(join(root, 'test/fixtures/programs/train_small.py'), join(work, 'train_small.py'));
    const words = [tracingPython, 'train_small.py', '--batch-size', '64'];
    const need = await submit('nobody', words, '--estimate-timeout', '600');
    expect([need.basis, need.why]).toEqual(['estimated', expect.stringContaining(traced)]);
    expect(need.bytes).toBeGreaterThan(0.5 * GiB);
    expect(need.bytes).toBeLessThan(2 * GiB);
  });
});

/** A server with a simulated GPU of 24 GiB, of which nothing is used. */
async function servingGpu() {
  const home = useHome(command);
  const trace = join(command.folder(), 'idle.json');
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  const rows = [0, 1].map((seconds) => [seconds, 0, 0, 0]);
  writeFileSync(trace, JSON.stringify({ capacity: 24 * GiB, columns, rows }));
  const simulated = { PLIMSOLL_SIMULATE: trace };
  const serving = await home.serve([], simulated);
  return { home, serving, simulated };
}

/** In Python's place: takes its time to trace, then runs out of it; as a job it ends at once. */
function slowPython(): string {
  const path = join(command.folder(), 'python3');
  writeFileSync(path, '#!/bin/sh\ncase "$*" in *plimsoll_trace*) exec sleep 1000;; esac\n');
  chmodSync(path, 0o755);
  return path;
}

/** Its trace ends once there is a file `go`; each notes its process. */
function gatedPython(): string {
  const folder = command.folder();
  writeFileSync(join(folder, 'gpt2.jsonl'), gpt2TraceText());
  const path = join(folder, 'python');
  const script = `#!/bin/sh
case "$*" in *plimsoll_trace*) ;; *) exit 0;; esac
while [ "$1" != --output ]; do shift; done
echo $$ >> '${folder}/pids'
while [ ! -e '${folder}/go' ]; do sleep 0.05; done
cp '${folder}/gpt2.jsonl' "$2"
`;
  writeFileSync(path, script, { mode: 0o755 });
  return path;
}

/** Or waits for a parent to ask how it ended. */

describe('plimsoll submit -- python train.py, with nothing stated', () => {
  it('falls back to a whole device where the trace takes too long, and answers meanwhile', async () => {
    const { home, serving } = await servingGpu();
    const words = ['--estimate-timeout', '2', '--', slowPython(), 'train.py'];
    const submitted = await home.json(['submit', ...words]);
    const waiting = { whyDetails: { code: 'estimating' } };
    expect(submitted).toMatchObject({ state: 'waiting', waiting });
    expect((await serving.ask('/healthz')).status).toBe(200);
    const job = await home.estimated(submitted['id']);
    expect(job).toMatchObject({ need: { basis: 'unknown', estimatedBytes: 'unknown' } });
    expect(JSON.stringify(job['need'])).toContain(
      'It could not be traced: The trace took longer than 2 s and was ended.',
    );
  });

  it('is traced again after a kill -9 of the server, and no more once it is cancelled', async () => {
    const { home, serving, simulated } = await servingGpu();
    const folder = command.folder();
    const pids = () => (textOf(join(folder, 'pids')) ?? '').split('\n').filter((pid) => pid !== '');
    const started = (count: number) => until(() => (pids().length === count ? true : undefined));
    const words = ['--', gatedPython(), 'train.py'];
    const { id } = await home.json(['submit', ...words]);
    await started(1);
    serving.kill('SIGKILL');
    await serving.ended;
    await home.serve([], simulated);
    await started(2);
    const { id: second } = await home.json(['submit', ...words, '--second']);
    const { id: third } = await home.json(['submit', ...words, '--third']);
    const waiting = { why: 'Its memory will be estimated after 2 other jobs of its owner.' };
    expect(await home.json(['jobs', String(third)])).toMatchObject({ waiting });
    await home.run(['cancel', String(third)]);
    writeFileSync(join(folder, 'go'), '');
    const need = { basis: 'estimated', whyDetails: { traced: true } };
    expect(await home.estimated(id)).toMatchObject({ need });
    rmSync(join(folder, 'go'));
    await started(3);
    await home.run(['cancel', String(second)]);
    await until(() => (hasEnded(Number(pids()[2])) ? true : undefined));
    expect(pids()).toHaveLength(3);
  });

  it('does not trace where it is told so, and refuses a time that is none', async () => {
    const { home } = await servingGpu();
    const job = await home.json(['submit', '--estimate-timeout=0', '--', slowPython(), 't.py']);
    expect(JSON.stringify(job['need'])).not.toContain('traced');
    const bad = await home.run(['submit', '--estimate-timeout', 'soon', '--', 'python3', 't.py']);
    expect(bad.exitCode).toBe(2);
    expect(bad.stderr).toContain('--estimate-timeout');
  });

  it('reserves what a real trace found, and keeps the answer', needsTorch, async () => {
    const { home } = await servingGpu();
    const folder = command.folder();
    cpSync(join(root, 'test/fixtures/programs/train_small.py'), join(folder, 'train_small.py'));
    const words = ['--estimate-timeout', '600', '--gpus', '1', '--', python, 'train_small.py'];
    const submitted = await home.json(['submit', ...words, '--batch-size', '64']);
    const first = await home.estimated(submitted['id']);
    const need: { bytes: number; why: string; basis: string } = JSON.parse(
      JSON.stringify(first['need']),
    );
    expect(need.basis).toBe('estimated');
    expect(need.why).toContain('The program was traced before its first run.');
    // 146 MiB of PyTorch's and the context of the card; far from the whole device.
    expect(need.bytes).toBeGreaterThan(0.5 * GiB);
    expect(need.bytes).toBeLessThan(2 * GiB);
    expect(existsSync(join(folder, 'small.pt'))).toBe(false);
  });
});
