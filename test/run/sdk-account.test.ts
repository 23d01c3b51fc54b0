import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { useCommand } from '../cli/command.js';
import { useHome } from '../cli/served.js';
import { needsRoot } from '../support/needs.js';
import { runIds, until } from './running.js';

const command = useCommand();
/** Accounts of every Linux. */
const [nobody, daemon] = [65_534, 1];

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
