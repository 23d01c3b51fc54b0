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
import { needs, needsRoot, needsTorch, tracingPython } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();
/** Accounts of every Linux. */
const accounts = { nobody: 65_534, daemon: 1 } as const;
type AccountName = keyof typeof accounts;

beforeAll(() => {
  const folder = dirname(command.folder());
  chmodSync(folder, 0o755);
  // The checkout may lie where other accounts cannot read.
  rmSync(join(folder, 'python'));
  for (const name of ['plimsoll', 'plimsoll_trace']) {
    cpSync(join(root, 'python', name), join(folder, 'python', name), { recursive: true });
  }
});

/** In Python's place: tells who traces, then does what the test wants; as a job it ends at once. */
const python = (then: string) => `#!/bin/sh
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
    writeFileSync(join(work, 'python3'), python(then));
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
