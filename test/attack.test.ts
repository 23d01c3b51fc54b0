import { spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { useCommand } from './cli/command.js';

const suite = fileURLToPath(new URL('../bench/attack.mjs', import.meta.url));
const command = useCommand();

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The suite against the command as it is now. */
function attack(argv: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, [suite, '--json', ...argv], {
    env: { ...process.env, ATTACK_COMMAND: command.path() },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data) => {
    stdout += String(data);
  });
  child.stderr.on('data', (data) => {
    stderr += String(data);
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

interface Row {
  readonly name: string;
  readonly broken: readonly string[];
}

describe('npm run attack', { tags: 'rest' }, () => {
  it.each([
    ['kill-daemon,kill-job', ['--times', '3']],
    ['crowded-exporter,crowded-webhook,estimated-program,lost-log,second-user', ['--small']],
  ])('attacks a few times by %s, and finds every promise kept', async (names, times) => {
    const { code, stdout } = await attack(['--only', names, ...times]);
    const { rows }: { rows: readonly Row[] } = JSON.parse(stdout);
    expect(rows.map(({ name }) => name).toSorted()).toEqual(names.split(','));
    expect(rows.filter(({ broken }) => broken.length > 0)).toEqual([]);
    expect(code).toBe(0);
  });

  it('names its attacks where one is not known', async () => {
    const { code, stderr } = await attack(['--only', 'kill-demon']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/There is no attack kill-demon\. There are kill-daemon, /);
  });
});

describe('the judge of work', () => {
  it('finds what is lost, what failed, and what ran twice', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-judge-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const { Work } = await import(
      new URL('../bench/attack/support/work.mjs', import.meta.url).href
    );
    const work = new Work({ folder });
    for (const number of [1, 2, 3, 4]) work.acknowledged.set(`work-${number}`, String(number));
    appendFileSync(join(folder, 'begun'), 'work-1\nwork-2\nwork-2\nwork-3\n');
    appendFileSync(join(folder, 'done'), 'work-1\nwork-2\nwork-2\n');
    const findings = { lost: [], doubled: [] };
    const job = (id: string, state: string) => ({ id, name: `work-${id}`, state, reason: 'why' });
    const jobs = [job('1', 'succeeded'), job('2', 'succeeded'), job('3', 'failed')];
    work.judge(jobs, findings);
    expect(findings).toEqual({
      lost: ['job 3 failed: why', 'work-4 (job 4) is not known'],
      doubled: ['work-2 was started 2 times'],
    });
  });
});
