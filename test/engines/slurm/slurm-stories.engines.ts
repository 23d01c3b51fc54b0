import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../../src/units/bytes.js';
import { shellWords } from '../../../src/units/words.js';
import { root } from '../../support/project-files.js';
import { takingMemory } from '../processes.js';
import { shardsPerGpu, startCluster, type TestCluster } from './slurm-cluster.js';

interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface JobDocument {
  readonly id: string;
  readonly state: string;
  readonly why: string;
  readonly nodes: string;
  readonly basis: string;
  readonly needBytes: number;
  readonly attempts: readonly {
    readonly clusterId: string;
    readonly request: string;
    readonly outOfMemory: boolean;
    readonly peakBytes: number;
  }[];
  readonly tasks: Readonly<Record<string, number>> | null;
}

let cluster: TestCluster;
let home: string;
/** The command, where every account can read it. */
let program: string;
/** The account that has the least; it owns a home of its own here. */
const nobody = 65_534;

beforeAll(async () => {
  cluster = await startCluster();
  home = join(cluster.folder, 'home');
  mkdirSync(home);
  program = join(readableRoot(), 'bin/plimsoll.js');
});
afterAll(() => cluster?.stop());

/** The project itself, or a copy of it where it lies in a folder that others cannot enter. */
function readableRoot(): string {
  const look = ['-e', `require('node:fs').readdirSync(${JSON.stringify(join(root, 'dist'))})`];
  if (spawnSync(process.execPath, look, { uid: nobody, gid: nobody, cwd: '/' }).status === 0)
    return root;
  const copy = join(cluster.folder, 'plimsoll');
  mkdirSync(copy);
  const parts = ['bin', 'dist', 'python', 'node_modules', 'package.json'];
  execFileSync('cp', ['-r', ...parts.map((part) => join(root, part)), copy]);
  return copy;
}

function start(words: readonly string[], uid?: number): ChildProcess {
  const own = uid === undefined ? home : join(cluster.folder, `home-${uid}`);
  if (!existsSync(own)) mkdirSync(own);
  if (uid !== undefined) chownSync(own, uid, uid);
  return spawn(process.execPath, [program, ...words], {
    cwd: own,
    env: { ...process.env, ...cluster.environment, PLIMSOLL_HOME: own, HOME: own },
    ...(uid === undefined ? {} : { uid, gid: uid }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

function plimsoll(words: readonly string[], uid?: number): Promise<Answer> {
  const child = start(words, uid);
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk) => (stdout += chunk));
  child.stderr?.on('data', (chunk) => (stderr += chunk));
  return new Promise((resolve) =>
    child.on('close', (code) => resolve({ code: code ?? -1, stdout, stderr })),
  );
}

async function submitted(words: readonly string[], uid?: number): Promise<JobDocument> {
  const answer = await plimsoll(['submit', '--engine', 'slurm', '--json', ...words], uid);
  if (answer.code !== 0) throw new Error(answer.stderr);
  return JSON.parse(answer.stdout);
}

async function jobs(uid?: number): Promise<readonly JobDocument[]> {
  const answer = await plimsoll(['jobs', '--engine', 'slurm', '--all', '--json'], uid);
  // A controller that was just killed answers a moment later.
  return answer.code === 0 ? JSON.parse(answer.stdout).jobs : [];
}

const endStates: ReadonlySet<string> = new Set(['succeeded', 'failed', 'cancelled', 'unknown']);

async function untilEnded(ids: readonly string[], uid?: number): Promise<readonly JobDocument[]> {
  for (;;) {
    const all = await jobs(uid);
    const own = ids.flatMap((id) => all.filter((job) => job.id === id));
    if (own.length === ids.length && own.every(({ state }) => endStates.has(state))) return own;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function untilRunning(id: string): Promise<JobDocument> {
  for (;;) {
    const job = (await jobs()).find((one) => one.id === id);
    if (job !== undefined && job.state !== 'waiting') return job;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

describe('Slurm, as its users have it', () => {
  it('packs jobs of mixed needs, and no GPU is over its line', async () => {
    const lines = join(cluster.folder, 'lines');
    writeFileSync(lines, '');
    chmodSync(lines, 0o666);
    // Each notes when it had how many shards of which GPU.
    const note = (what: string, shards: number) =>
      `echo ${what} $SLURMD_NODENAME/$CUDA_VISIBLE_DEVICES ${shards} >> ${lines}`;
    const needs = Array.from({ length: 60 }, (_, index) => [5, 12, 20, 30, 47, 70][index % 6] ?? 5);
    const ids: string[] = [];
    // They begin together, however long their submission takes.
    const gate = await submitted(['--memory=64MiB', '--gpus=0', '--', 'sleep', '1000000']);
    for (const gib of needs) {
      const script = `${note('+', gib)}; sleep 2; ${note('-', gib)}`;
      const wait = `--dependency=afterany:${gate.id}`;
      const job = await submitted(['--memory', `${gib}GiB`, wait, '--', 'sh', '-c', script]);
      expect(job.attempts[0]?.request).toBe(`shard:${gib}`);
      ids.push(job.id);
    }
    await plimsoll(['cancel', '--engine', 'slurm', gate.id]);
    const ended = await untilEnded(ids);
    expect(ended.map(({ state }) => state)).toEqual(needs.map(() => 'succeeded'));
    const held = new Map<string, number>();
    let most = 0;
    const noted = readFileSync(lines, 'utf8').trim().split('\n');
    expect(noted).toHaveLength(2 * needs.length);
    for (const line of noted) {
      const [sign = '', device = '', shards = '0'] = line.split(' ');
      expect(device).toMatch(/^n[12]\/[01]$/);
      const now = (held.get(device) ?? 0) + (sign === '+' ? Number(shards) : -Number(shards));
      held.set(device, now);
      most = Math.max(most, now);
      expect(now).toBeLessThanOrEqual(shardsPerGpu);
    }
    // Some shared a GPU: otherwise nothing was packed.
    expect(most).toBeGreaterThan(Math.max(...needs));
  });

  it('takes the smallest type of GPU that is enough where shards are not', async () => {
    expect(await dry('--memory', '100GiB')).toContain('#SBATCH --gres=gpu:h200:1');
    expect(await dry('--memory', '60GiB', '--gpus', '2')).toContain('gpu:a100-80gb:2');
    expect(await dry('--memory', '8GiB', '--gpus', '0')).toContain('#SBATCH --mem=8448M');
    expect(await dry('--memory', '1GiB', '--time', '5', '-pgpu')).toMatch(
      /--time=5\n#SBATCH -pgpu/,
    );
  });

  it('asks for GPUs of a partition that is open to the user, or of the one that the user names', async () => {
    change('create', 'PartitionName=large', 'Nodes=n3');
    change('create', 'PartitionName=others', 'Nodes=n1,n2', 'AllowGroups=daemon');
    change('create', 'PartitionName=lab', 'Nodes=n1,n2', 'AllowAccounts=lab');
    expect(await asNobody()).not.toContain('--partition');
    expect(await asNobody('--partition', 'large')).toContain('--gres=gpu:h200:1\n');
    // Of those that take a job of this user, none has the smaller GPUs.
    change('update', 'PartitionName=gpu', 'State=DOWN');
    expect(await asNobody()).toMatch(/--gres=gpu:h200:1\n#SBATCH --partition=large\n/);
    expect(await asNobody('--account=lab')).toMatch(/--gres=shard:30\n#SBATCH --partition=lab\n/);
    change('update', 'PartitionName=gpu', 'State=UP');
    for (const name of ['large', 'others', 'lab']) change('delete', `PartitionName=${name}`);
  });

  it('corrects the next request by what was measured', async () => {
    const command = ['--gpus', '0', '--', ...takingMemory(300 * MiB)];
    const first = await submitted(['--memory', '2GiB', ...command]);
    expect(first).toMatchObject({ basis: 'stated', needBytes: 2 * GiB });
    const [ended] = await untilEnded([first.id]);
    expect(ended?.attempts[0]?.peakBytes).toBeGreaterThan(300 * MiB);
    const second = await submitted(command);
    expect(second.basis).toBe('measured');
    expect(second.needBytes).toBeGreaterThan(300 * MiB);
    expect(second.needBytes).toBeLessThan(600 * MiB);
    expect((await untilEnded([second.id]))[0]).toMatchObject({ state: 'succeeded' });
  });

  it('submits a job that runs out of memory twice a third time, with a larger request', async () => {
    const job = await submitted([
      '--memory',
      '64MiB',
      '--gpus',
      '0',
      '--',
      ...takingMemory(200 * MiB),
    ]);
    const [ended] = await untilEnded([job.id]);
    expect(ended?.state).toBe('succeeded');
    expect(ended?.attempts.map(({ outOfMemory }) => outOfMemory)).toEqual([true, true, false]);
    const log = await plimsoll(['logs', '--engine', 'slurm', job.id]);
    expect(log.stdout).toContain('Submitted again as job');
    expect(log.stdout.match(/^took /gm)).toHaveLength(1);
  });

  it('runs arrays, each task with its own attempts, and dependencies', async () => {
    const script = `if [ $SLURM_ARRAY_TASK_ID = 1 ]; then exec ${shellWords(takingMemory(100 * MiB))}; fi; echo task $SLURM_ARRAY_TASK_ID`;
    const words = ['--memory', '64MiB', '--gpus', '0', '--array=0-3', '--', 'sh', '-c', script];
    const job = await submitted(words);
    const after = await submitted([
      '--memory',
      '64MiB',
      '--gpus=0',
      `--dependency=afterany:${job.id}`,
      '--',
      'true',
    ]);
    const [ended, last] = await untilEnded([job.id, after.id]);
    expect(ended?.tasks).toEqual({ succeeded: 4 });
    expect(ended?.attempts.map(({ outOfMemory }) => outOfMemory)).toEqual([true, false]);
    expect(last?.state).toBe('succeeded');
  });

  it('serves a user who is not root', async () => {
    const words = ['--memory', '64MiB', '--gpus', '0', '--', 'sh', '-c', 'id -u; sleep 1'];
    const job = await submitted(words, nobody);
    expect((await untilEnded([job.id], nobody))[0]).toMatchObject({ state: 'succeeded' });
    expect((await plimsoll(['logs', '--engine', 'slurm', job.id], nobody)).stdout).toContain(
      `${nobody}\n`,
    );
    expect((await plimsoll(['jobs', '--engine', 'slurm', job.id])).code).toBe(2);
  });

  it('cancels a waiting and a running job, and says so', async () => {
    const running = await submitted(['--memory', '64MiB', '--gpus', '0', '--', 'sleep', '1000000']);
    const waiting = await submitted([
      '--memory=64MiB',
      '--gpus=0',
      `--dependency=afterok:${running.id}`,
      '--',
      'true',
    ]);
    await untilRunning(running.id);
    const answer = await plimsoll(['cancel', '--engine', 'slurm', waiting.id, running.id]);
    expect(answer).toMatchObject({ code: 0 });
    const ended = await untilEnded([running.id, waiting.id]);
    expect(ended.map(({ state }) => state)).toEqual(['cancelled', 'cancelled']);
    expect((await plimsoll(['cancel', '--engine', 'slurm', running.id])).code).toBe(1);
  });

  it('goes on where its supervisor was killed: the program runs once', async () => {
    const marks = join(cluster.folder, 'marks');
    const script = `echo begun >> ${marks}; sleep 8; echo done >> ${marks}`;
    const job = await submitted(['--memory', '64MiB', '--gpus', '0', '--', 'sh', '-c', script]);
    await untilRunning(job.id);
    await expect.poll(() => existsSync(marks)).toBe(true);
    const kill = spawn('pkill', ['-KILL', '-f', `plimsoll.js run .*${marks}`]);
    await new Promise((resolve) => kill.on('close', resolve));
    expect((await untilEnded([job.id]))[0]).toMatchObject({ state: 'succeeded' });
    expect(readFileSync(marks, 'utf8')).toBe('begun\ndone\n');
  });

  it('a node that vanishes: its job is started on another one', async () => {
    const marks = join(cluster.folder, 'vanished');
    writeFileSync(marks, '');
    const script = `echo $SLURMD_NODENAME >> ${marks}; [ $(wc -l < ${marks}) -gt 1 ] || sleep 1000000`;
    const job = await submitted(['--memory', '20GiB', '--', 'sh', '-c', script]);
    // The shell makes the file before it writes into it.
    await expect.poll(() => readFileSync(marks, 'utf8')).toMatch(/^n\d\n$/);
    const node = readFileSync(marks, 'utf8').trim();
    cluster.killNode(node);
    expect((await untilEnded([job.id]))[0]).toMatchObject({ state: 'succeeded' });
    const seen = readFileSync(marks, 'utf8').trim().split('\n');
    expect(seen).toHaveLength(2);
    cluster.restartNode(node);
  });

  it('packs a list inside an allocation, within its memory and its time', async () => {
    const list = join(cluster.folder, 'jobs.txt');
    writeFileSync(
      list,
      ['# four at a time', ...Array.from({ length: 6 }, () => listed(1))].join('\n'),
    );
    const packed = () =>
      cluster.run('srun', [
        '--mem=500M',
        '--partition=cpu',
        `--export=ALL,PLIMSOLL_HOME=${home}`,
        process.execPath,
        program,
        'pack',
        list,
        '--json',
      ]);
    const first = JSON.parse(packed());
    expect(first).toMatchObject({ succeeded: 6, failed: [], left: [] });
    // With less time than a job takes, nothing is started, and all of it is kept for the next time.
    const late = await plimsoll(['pack', list, '--time-limit', '30', '--left', `${list}.late`]);
    expect(late.code).toBe(1);
    expect(readFileSync(`${list}.late`, 'utf8').trim().split('\n')).toHaveLength(6);
  });
});

function change(...words: readonly string[]): void {
  cluster.run('scontrol', words);
}

async function asNobody(...words: readonly string[]): Promise<string> {
  const answer = await plimsoll([...dryRun, '--memory', '30GiB', ...words, '--', 'true'], nobody);
  return answer.stdout;
}

/** The script that would be submitted. */
async function dry(...words: readonly string[]): Promise<string> {
  const answer = await plimsoll([...dryRun, ...words, '--', 'true']);
  return answer.stdout;
}

const dryRun = ['submit', '--engine', 'slurm', '--dry-run'];

/** A line of a list: it says in which job it runs. */
function listed(seconds: number): string {
  return `--memory 100MiB --gpus 0 -- sh -c 'echo $SLURM_JOB_ID; sleep ${seconds}'`;
}
