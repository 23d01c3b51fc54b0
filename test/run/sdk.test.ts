import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { RunReport } from '../../src/run/types.js';
import { cleanEnvironment, useCommand } from '../cli/command.js';
import { useHome } from '../cli/served.js';
import { needsRoot } from '../support/needs.js';
import { canLimitByCgroup, livingWith, runIds, textOf, until } from './running.js';

const command = useCommand();

async function report(argv: readonly string[]): Promise<{ report: RunReport; said: string }> {
  const environment = { PLIMSOLL_HOME: join(command.folder(), 'home') };
  const { stdout, stderr } = await command.run(['run', '--json', ...argv], { environment });
  // Its own line comes first; ours, about how it went, is last.
  return { report: JSON.parse(stdout), said: stderr.split('\n')[0] ?? '' };
}

describe('a program that speaks to its supervisor', () => {
  it('is told what to do, and what it did is in the report', async () => {
    writeFileSync(
      join(command.folder(), 'speaks.mjs'),
      `import { createConnection } from 'node:net';
       import { createInterface } from 'node:readline';
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       const say = (message) => line.write(JSON.stringify(message) + '\\n');
       say({ type: 'hello', version: 1, pid: process.pid, rank: 0, world: 1, torch: null, hooks: ['microbatch'], device: 'cpu' });
       say({ type: 'oom', id: 1, rank: 0, phase: 'backward', kind: 'cuda', message: 'x', askedBytes: 1, microbatch: 8, batch: 8, peakBytes: null, snapshot: null });
       createInterface({ input: line }).once('line', (text) => {
         console.log(text);
         line.end();
       });`,
    );
    const { report: found, said } = await report(['--', process.execPath, 'speaks.mjs']);
    expect(JSON.parse(said)).toMatchObject({
      type: 'decide',
      id: 1,
      action: 'retry',
      microbatch: 4,
    });
    expect(found.attempts[0]?.rungs).toEqual([
      expect.objectContaining({
        rung: 'smaller-microbatch',
        why: expect.stringContaining('now 4'),
      }),
    ]);
    expect(found.outcome).toBe('succeeded');
  });

  it('counts as out of memory when it could not recover and the program failed', async () => {
    writeFileSync(
      join(command.folder(), 'gives-up.mjs'),
      `import { createConnection } from 'node:net';
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       line.write('{"type":"hello","rank":0,"world":1,"hooks":[]}\\n');
       line.write('{"type":"oom","id":1,"kind":"cublas","message":"full","askedBytes":77,"microbatch":1,"batch":1}\\n');
       line.once('data', () => process.exit(1));`,
    );
    const { report: found } = await report(['--', process.execPath, 'gives-up.mjs']);
    expect(found.attempts[0]?.outOfMemory).toMatchObject({
      kind: 'cublas',
      askedBytes: 77,
      message: 'full',
    });
  });

  it('is started again as long as it writes checkpoints, without being asked for its attempt', async () => {
    writeFileSync(
      join(command.folder(), 'saves.mjs'),
      `import { createConnection } from 'node:net';
       import { existsSync, readFileSync, writeFileSync } from 'node:fs';
       const steps = existsSync('steps') ? Number(readFileSync('steps', 'utf8')) : 0;
       if (steps >= 3) process.exit(0);
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       writeFileSync('steps', String(steps + 1));
       line.write('{"type":"hello","rank":0,"world":1,"hooks":["checkpoint"]}\\n');
       line.write(JSON.stringify({ type: 'saved', steps: steps + 1 }) + '\\n');
       line.write('{"type":"oom","id":1,"kind":"cuda","message":"full","microbatch":1,"batch":1}\\n');
       line.once('data', () => process.exit(1));`,
    );
    const { report: found } = await report(['--', process.execPath, 'saves.mjs']);
    expect(found.outcome).toBe('succeeded');
    expect(found.attempts).toHaveLength(4);
    expect(found.attempts[0]?.rungs.at(-1)?.rung).toBe('restart-from-checkpoint');
  });

  it('is a loop of its own that is told its attempt: started again after steps that went well', async () => {
    writeFileSync(
      join(command.folder(), 'loops.mjs'),
      `import { createConnection } from 'node:net';
       const [attempt, steps] = process.argv.slice(2).map(Number);
       if (attempt > 1) process.exit(0);
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       line.write('{"type":"hello","rank":0,"world":1,"hooks":[]}\\n');
       for (let number = 1; number <= steps; number++) {
         line.write(JSON.stringify({ type: 'loop', who: 'loop-1', number, loss: 1 / number }) + '\\n');
       }
       line.write('{"type":"oom","id":1,"kind":"cuda","message":"full","microbatch":1,"batch":1}\\n');
       // What was said before it is heard by then.
       line.once('data', () => process.exit(1));`,
    );
    const attemptsAfter = async (steps: string) => {
      const argv = ['--', process.execPath, 'loops.mjs', '{attempt}', steps];
      return (await report(argv)).report.attempts;
    };
    const [first, second, ...more] = await attemptsAfter('2');
    expect(first?.progress).toMatchObject([
      { step: 1, loss: 1 },
      { step: 2, loss: 0.5 },
    ]);
    expect(first?.rungs.at(-1)?.rung).toBe('restart-from-checkpoint');
    expect([second?.exitCode, more.length]).toEqual([0, 0]);
    expect(await attemptsAfter('0')).toHaveLength(1);
  });

  it('is a plain loop, started again with spilling and with its batch as it was', async () => {
    writeFileSync(
      join(command.folder(), 'plain.mjs'),
      `import { createConnection } from 'node:net';
       const { PLIMSOLL_SPILL: mode, PLIMSOLL_SPILL_HEADROOM_BYTES: room, PLIMSOLL_BRIDGE } = process.env;
       const line = createConnection(PLIMSOLL_BRIDGE);
       const say = (message) => line.write(JSON.stringify(message) + '\\n');
       say({ type: 'hello', rank: 0, world: 1, torch: '2.11', hooks: [], device: 'cuda:0', spill: true });
       if (mode === 'always' && room === '4096') {
         say({ type: 'spill', bytesOut: 100, bytesBack: 90, recomputedSeconds: 1.5, stallSeconds: 0.25, active: true, aside: null });
         say({ type: 'bye' });
         line.end();
       } else {
         say({ type: 'oom', id: 1, kind: 'cuda', message: mode, askedBytes: 4096, microbatch: 1, batch: 1 });
         line.once('data', () => process.exit(1));
       }`,
    );
    const plain = ['--', process.execPath, 'plain.mjs', '16'];
    const { report: found } = await report(['--report', 'run.html', ...plain]);
    const [first, second] = found.attempts;
    expect(first?.outOfMemory?.message).toBe('auto');
    expect(first?.rungs.at(-1)).toMatchObject({
      rung: 'spill',
      why: expect.stringContaining('4.0 KiB'),
    });
    expect(second?.spill).toEqual({
      bytesOut: 100,
      bytesBack: 90,
      recomputedSeconds: 1.5,
      stallSeconds: 0.25,
    });
    expect([second?.command.at(-1), found.outcome]).toEqual(['16', 'succeeded']);
    const page = readFileSync(join(command.folder(), 'run.html'), 'utf8');
    expect(page).toContain('Memory gave way');
    // Without leave to spill there is nothing that it could be told.
    const { report: without } = await report(['--spill', 'off', ...plain]);
    expect(without).toMatchObject({
      outcome: 'failed',
      attempts: [{ rungs: [{ rung: 'give-back-cache' }] }],
    });
    expect(without.attempts[0]?.outOfMemory?.message).toBe('off');
  });

  it('keeps to a limit that is moved while it runs, or says that it cannot', async () => {
    const home = useHome(command);
    const script = join(command.folder(), 'gives.mjs');
    // It needs 1 GiB, and ends when its line does.
    writeFileSync(
      script,
      `import { createConnection } from 'node:net';
       import { createInterface } from 'node:readline';
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       const say = (message) => line.write(JSON.stringify(message) + '\\n');
       say({ type: 'hello', rank: 0, world: 1, torch: '2.11', hooks: [], device: 'cuda:0', spill: true });
       for await (const text of createInterface({ input: line })) {
         const { type, bytes, order } = JSON.parse(text);
         if (type === 'limit') say({ type: 'limit-set', bytes: Math.max(bytes, 2 ** 30), allocatedBytes: 2 ** 30, order });
       }`,
    );
    const program = ['--', process.execPath, script];
    await home.serve(['--simulate', 'steady']);
    await home.run(['submit', '--memory', '6GiB', ...program]);
    const job = async () => await home.json(['jobs', '1']);
    await until(async () => ((await job())['currentAttempt'] === null ? undefined : true));
    const lower = await home.run(['limit', '1', '4GiB']);
    expect(lower).toMatchObject({ exitCode: 0 });
    expect(lower.stdout).toMatch(/^Job 1 .* keeps to 4\.0 GiB from now on\.\n$/);
    expect(await job()).toMatchObject({ reservation: { bytes: 4 * 2 ** 30 } });
    const least = await home.run(['limit', '1', '100MiB']);
    expect([least.exitCode, least.stdout]).toEqual([1, expect.stringContaining('With less it')]);
    const higher = await home.json(['limit', '1', '5GiB']);
    expect(higher).toMatchObject({ limit: { state: 'set' }, reservation: { bytes: 5 * 2 ** 30 } });
    expect((await home.run(['limit', '1', '5000GiB'])).stderr).toContain('no-room');
    expect((await home.run(['limit', '7', '5GiB'])).exitCode).toBe(2);
    await home.run(['cancel', '1']);
  });

  it('is a run of "plimsoll run" whose limit is moved by its name', async () => {
    const home = useHome(command);
    const running = home.run(['run', '--memory', '64MiB', '--device', 'host', '--', 'sleep', '3']);
    const id = await until(() => runIds(home.path)[0]);
    const moved = await home.json(['limit', id, '128MiB']);
    expect(moved).toMatchObject({ run: id, askedBytes: 2 ** 27 });
    // The kernel moves a cgroup; an address space stays as it is, and says so.
    expect([moved['state'], moved['limitBytes']]).toEqual(
      canLimitByCgroup() ? ['set', 2 ** 27] : ['kept', 2 ** 26],
    );
    await running;
    const over = await home.run(['limit', id, '64MiB']);
    expect([over.exitCode, over.stderr]).toEqual([2, expect.stringContaining('run-has-ended')]);
  });

  it('has the snapshot that it left explained', async () => {
    copyFileSync(
      new URL('../../bench/truth/snapshots/oom.pickle.xz', import.meta.url),
      join(command.folder(), 'left.pickle'),
    );
    const fails = (file: string) => `import { createConnection } from 'node:net';
       const line = createConnection(process.env.PLIMSOLL_BRIDGE);
       line.write('{"type":"hello","rank":0,"world":1,"hooks":[]}\\n');
       line.write(JSON.stringify({ type: 'oom', id: 1, kind: 'cuda', message: 'full', microbatch: 1, batch: 1, snapshot: process.cwd() + '/${file}' }) + '\\n');
       line.once('data', () => process.exit(1));`;
    const snapshotOf = async (file: string) => {
      writeFileSync(join(command.folder(), 'fails.mjs'), fails(file));
      const { report: found } = await report(['--', process.execPath, 'fails.mjs']);
      return found.attempts[0]?.snapshot;
    };
    const explained = await snapshotOf('left.pickle');
    expect(explained?.file).toMatch(/left\.pickle$/);
    expect(explained?.findings[0]).toContain('asked for 96.0 MiB');
    // What lies beside a report must not cost it.
    expect((await snapshotOf('gone.pickle'))?.findings[0]).toContain('could not be read');
  });

  it('is understood when it is the Python package', async () => {
    const script = join(command.folder(), 'asks.py');
    writeFileSync(
      script,
      `from plimsoll.bridge.connection import current
from plimsoll.memory.out_of_memory import recognise
line = current()
line.declare(["microbatch"], 0, 1)
found = recognise(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
print(line.ask_about(found, "forward", 32, 64, 0)["microbatch"])
line.close()
`,
    );
    const { report: found, said } = await report(['--', 'python3', script]);
    expect(said).toBe('16');
    expect(found.attempts[0]?.rungs.map(({ rung }) => rung)).toEqual(['smaller-microbatch']);
  });
});

/** Accounts of every Linux. */
const [nobody, daemon] = [65_534, 1];

/** Asks as a step does that ran out of memory, and says what it was told. */
const asks = (gate: string) => `import os, time
while not os.path.exists(${JSON.stringify(gate)}):
    time.sleep(0.05)
from plimsoll.bridge.connection import current
from plimsoll.memory.out_of_memory import recognise
line = current()
line.declare(["microbatch"], 0, 1)
found = recognise(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
answer = line.ask_about(found, "forward", 32, 64, 0)
print(os.getuid(), answer["microbatch"], os.environ.get("PLIMSOLL_RUN_DIR"))
line.close()
`;

describe('a step in a job of another account', needsRoot, () => {
  beforeAll(() => {
    const root = dirname(command.folder());
    chmodSync(root, 0o755);
    // The checkout may lie where other accounts cannot read.
    rmSync(join(root, 'python'));
    cpSync(
      fileURLToPath(new URL('../../python/plimsoll', import.meta.url)),
      join(root, 'python/plimsoll'),
      {
        recursive: true,
      },
    );
  });

  it('is told by its supervisor what to do, over a socket that no third account opens', async () => {
    const home = useHome(command);
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-account-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    chmodSync(folder, 0o755);
    const [script, gate] = [join(folder, 'asks.py'), join(folder, 'gate')];
    writeFileSync(script, asks(gate));
    const serving = await home.serve([], { USE_GPU: 'false' });
    const { stdout } = await home.run(['users', 'add', 'ada', '--account', 'nobody', '--json']);
    const { token }: { token: string } = JSON.parse(stdout);
    const program = ['--cwd', folder, '--', 'python3', script];
    const submitted = await home.run(['submit', '--gpus', '0', '--memory', '256MiB', ...program], {
      environment: { PLIMSOLL_TOKEN: token },
    });
    expect([submitted.exitCode, submitted.stderr]).toEqual([0, '']);
    const run = await until(() => runIds(home.path)[0]);
    const socket = join('/run/plimsoll/jobs', run, 'bridge.sock');
    await until(() => (existsSync(socket) && statSync(socket).uid === nobody ? true : undefined));
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    const { uid, mode } = statSync(dirname(socket));
    expect([uid, mode & 0o777]).toEqual([0, 0o711]);
    expect([connectAs(nobody, socket), connectAs(daemon, socket)]).toEqual(['open', 'EACCES']);

    writeFileSync(gate, '');
    const ended = await until(async () => {
      const job: Job = JSON.parse(await (await serving.ask('/jobs/1')).text());
      return ['succeeded', 'failed'].includes(job.state) ? job : undefined;
    });
    const log = await (await serving.ask('/jobs/1/log')).text();
    // Its answer came from the supervisor, which knows the limit of 256 MiB.
    expect(log.split('\n')[0]).toMatch(/^65534 [1-9]\d* None$/);
    expect(ended).toMatchObject({
      state: 'succeeded',
      owner: 'ada',
      attempts: [{ rungs: [{ rung: 'smaller-microbatch' }], snapshot: null }],
    });
    await until(() => (existsSync(dirname(socket)) ? undefined : true));
  });
});

interface Job {
  readonly state: string;
}

/** Whether an account can open a socket; else why not. */
function connectAs(uid: number, socket: string): string {
  const script = `const s = require('net').connect(${JSON.stringify(socket)}, () => { console.log('open'); s.destroy(); });
    s.once('error', ({ code }) => console.log(code));`;
  const become = [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
  const first: string = 'setpriv';
  return spawnSync(first, [...become, process.execPath, '-e', script], {
    encoding: 'utf8',
    cwd: '/',
  }).stdout.trim();
}

/** Runs out of memory under one supervisor, alone, and under the next; waits for a word before each. */
const script = `
import os, time, plimsoll
from plimsoll.bridge import connection
most = [9]
@plimsoll.recovering
def work(batch):
    if len(batch) > most[0]:
        raise MemoryError()
    return list(batch)
def reached(name):
    open(name, "w").close()
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.02)
line = connection.current()
held = bytearray(300 * 2**20)
for at in range(0, len(held), 4096):
    held[at] = 1
work(list(range(16)))
del held
work(list(range(16)))
reached("under-the-first")
while line.alive:
    time.sleep(0.02)
most[0] = 5
done = [work(list(range(16))) for _ in range(3)]
reached("alone")
while not line.alive:
    time.sleep(0.02)
most[0] = 1
done.append(work(list(range(16))))
assert done == [list(range(16))] * 4, done
`;

const smaller = 'smaller-microbatch';

/** `[[6, 3], [3, 2], [2, 1]]`: from 6 down to 1. */
function halvesOf(size: number): readonly (readonly [number, number])[] {
  const half = Math.ceil(size / 2);
  return size > 1 ? [[size, half], ...halvesOf(half)] : [];
}

describe('a Python program whose supervisor was killed', () => {
  it('goes on alone, finds the next one, and tells it where it stands', async () => {
    const folder = mkdtempSync(join(command.folder(), 'alone-'));
    const environment = { PLIMSOLL_HOME: join(folder, 'home'), TEST_MARK: folder };
    writeFileSync(join(folder, 'job.py'), script);
    const first = spawn(
      process.execPath,
      [command.path(), 'run', '--device', 'host', '--', 'python3', 'job.py'],
      { cwd: folder, env: cleanEnvironment(environment), stdio: 'ignore' },
    );
    const gone = new Promise((resolve) => first.once('close', resolve));
    await until(() => textOf(join(folder, 'under-the-first')));
    first.kill('SIGKILL');
    await gone;
    await until(() => textOf(join(folder, 'alone')));
    const { stdout } = await command.run(['run', '--attach', '--json'], { environment });
    const report: RunReport = JSON.parse(stdout);
    expect(report).toMatchObject({ id: runIds(environment.PLIMSOLL_HOME)[0], exitCode: 0 });
    const [attempt] = report.attempts;
    const climbed = (attempt?.rungs ?? [])
      .filter(({ rung }) => rung !== 'grow-back')
      .map(({ rung, why }) => [rung, why]);
    const [underTheFirst, cache, alone, ...underTheNext] = climbed;
    expect(underTheFirst).toEqual([smaller, expect.stringMatching(/16 .*now 8\.$/)]);
    // In the program's own words.
    expect(cache).toEqual([
      'give-back-cache',
      '8 samples fitted before; cached memory was given back',
    ]);
    expect(alone).toEqual([smaller, '8 samples do not fit; half of what failed']);
    // In the words of a supervisor: from what it had grown back to, by halves, down to one sample.
    const begun = /^([456]) /.exec(underTheNext[0]?.[1] ?? '');
    expect(underTheNext).toEqual(
      halvesOf(Number(begun?.[1])).map(([from, to]) => [
        smaller,
        `${from} did not fit, and no limit is known: half of it; now ${to}.`,
      ]),
    );
    // Rungs of the time without a supervisor stand where they were climbed.
    const times = attempt?.rungs.map(({ atSeconds }) => atSeconds) ?? [];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    // The most that it held, it held under the first.
    expect(attempt?.peakBytes).toBeGreaterThan(300 * 2 ** 20);
    expect(livingWith(`TEST_MARK=${folder}`)).toEqual([]);
  });
});
