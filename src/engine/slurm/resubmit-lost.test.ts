import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SlurmJobFolder, SlurmOrder } from './job-folder.js';
import { attemptForTests, endForTests, jobInFolder, rowForTests } from './job-for-tests.js';
import type { SlurmJob } from './job-states.js';
import { resubmitLost } from './resubmit-lost.js';
import { commentOf } from './submit-attempt.js';

const minute = 60_000;
const submittedMs = Date.parse('2026-11-16T00:00:00.000Z');
const submittedAt = new Date(submittedMs).toISOString();
let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-lost-'));
});
afterEach(() => rmSync(home, { recursive: true }));

interface Look {
  readonly afterMs?: number;
  readonly bootAfterMs?: number;
  readonly slurm?: readonly Partial<SlurmJob>[];
  /** Slurm's records a moment later. */
  readonly later?: readonly Partial<SlurmJob>[];
  /** Slurm's answer to sbatch. */
  readonly id?: string;
}

/** The scripts that one look submits, and what it says of the job. */
async function lookAt(
  { folder, order }: { readonly folder: SlurmJobFolder; readonly order: SlurmOrder },
  { afterMs = minute, bootAfterMs = 0, slurm = [], later, id = '18' }: Look = {},
): Promise<{ readonly scripts: readonly string[]; readonly said: ReadonlyMap<unknown, unknown> }> {
  const scripts: string[] = [];
  const rows = (jobs: readonly Partial<SlurmJob>[]) =>
    jobs.map((job) => ({ ...rowForTests, comment: commentOf(folder.key, 'all', 1), ...job }));
  const suspect = {
    folder,
    order,
    slurm: rows(slurm),
    look: async () => rows(later ?? slurm),
    controller: async () => ({ bootMs: submittedMs + bootAfterMs, minJobAgeMs: 5 * minute }),
    nowMs: submittedMs + afterMs,
  };
  const said = await resubmitLost(suspect, async (command, _words, input = '') => {
    if (command !== 'sbatch') return JSON.stringify({ jobs: [] });
    scripts.push(input);
    return `${id}\n`;
  });
  return { scripts, said };
}

async function look(...facts: Parameters<typeof lookAt>): Promise<readonly string[]> {
  return (await lookAt(...facts)).scripts;
}

describe('resubmitLost', () => {
  it('submits a job again that Slurm does not know, and remembers its number', async () => {
    const job = jobInFolder(home, submittedAt);
    expect(await look(job)).toHaveLength(1);
    expect(job.folder.attempt('all', 1)).toMatchObject({ slurmId: '18', formerIds: ['17'] });
  });

  it('counts from the last submission: a job may be lost twice, and get the same number again', async () => {
    const at = (ms: number) => new Date(submittedMs + ms).toISOString();
    const job = jobInFolder(home, submittedAt, {
      attempt: { submittedAt: at(60 * minute), formerIds: ['17'] },
    });
    // The claim of the first loss.
    job.folder.claimLost('all.1.0', 0);
    const late = { afterMs: 60 * minute + 1000, bootAfterMs: 60 * minute, id: '17' };
    expect(await look(job, late)).toHaveLength(1);
    expect(job.folder.attempt('all', 1)).toMatchObject({ slurmId: '17', formerIds: ['17', '17'] });
  });

  it('is done by one of several commands', async () => {
    const job = jobInFolder(home, submittedAt);
    expect(job.folder.claimLost('all.1.0', 0)).toBe(true);
    expect(await look(job)).toEqual([]);
  });

  it('is done by one command where the one that claimed it died long ago', async () => {
    const { folder } = jobInFolder(home, submittedAt);
    const later = Date.now() + 60 * minute;
    expect(folder.claimLost('all.1.0', later)).toBe(true);
    expect(folder.claimLost('all.1.0', later)).toBe(true);
    expect(folder.claimLost('all.1.0', 0)).toBe(false);
  });

  it.each<[string, (folder: SlurmJobFolder) => void, Look]>([
    ['runs on a node', (folder) => folder.markRunning('17-a', 0), {}],
    ['was cancelled', (folder) => folder.markCancelled(), {}],
    ['is known to Slurm', () => {}, { slurm: [{ state: 'waiting' }] }],
    [
      'is gone for longer than Slurm keeps jobs',
      () => {},
      { afterMs: 60 * minute, bootAfterMs: 30 * minute },
    ],
  ])('leaves a job alone that %s', async (_, prepare, facts) => {
    const job = jobInFolder(home, submittedAt);
    prepare(job.folder);
    expect(await look(job, facts)).toEqual([]);
  });

  it('submits a job again that a node refused to begin, and says so instead of failed', async () => {
    const job = jobInFolder(home, submittedAt);
    const refused = { id: '17', state: 'failed', slurmState: 'FAILED', exitCode: 1 } as const;
    const late = { slurm: [refused], afterMs: 60 * minute, bootAfterMs: 30 * minute };
    const { scripts, said } = await lookAt(job, late);
    expect(scripts).toHaveLength(1);
    expect(said.get('all')).toMatchObject({ state: 'waiting' });
  });

  it('leaves a job alone that failed otherwise, or was refused too often', async () => {
    const failed = { id: '17', state: 'failed', slurmState: 'FAILED', exitCode: 1 } as const;
    const late = { afterMs: 60 * minute, bootAfterMs: 30 * minute };
    const job = jobInFolder(home, submittedAt);
    for (const slurmState of ['TIMEOUT', 'NODE_FAIL'])
      expect(await look(job, { ...late, slurm: [{ ...failed, slurmState }] })).toEqual([]);
    expect(await look(job, { ...late, slurm: [{ ...failed, exitCode: 70 }] })).toEqual([]);
    const formerIds = Array.from({ length: 20 }, (_, index) => String(index));
    const often = jobInFolder(home, submittedAt, { attempt: { formerIds } });
    expect(await look(often, { ...late, slurm: [failed] })).toEqual([]);
  });

  it('does not call a job ended while its node is still heard, or that is just being submitted', async () => {
    const job = jobInFolder(home, submittedAt);
    const begun = await lookAt(job, { later: [{ state: 'waiting', slurmReason: 'Priority' }] });
    expect(begun.scripts).toEqual([]);
    expect(begun.said.get('all')).toEqual({ state: 'waiting', why: 'Priority' });
    job.folder.markRunning('17-a', 0);
    const heard = await lookAt(job);
    expect(heard.scripts).toEqual([]);
    expect(heard.said.get('all')).toMatchObject({ state: 'running' });
  });

  it('submits only the tasks of an array that have not ended', async () => {
    const job = jobInFolder(home, submittedAt, { order: { sbatchOptions: ['--array=0-2'] } });
    job.folder.writeEnd(1, 1, endForTests);
    const { scripts, said } = await lookAt(job);
    expect(scripts).toHaveLength(1);
    expect(scripts[0]).toMatch(/--array=0-2\n#SBATCH --array=0,2\n/);
    expect([...said.keys()]).toEqual([0, 2]);
  });

  it('submits the attempt after out-of-memory again, of its own task', async () => {
    const job = jobInFolder(home, submittedAt, { order: { sbatchOptions: ['--array=0-1'] } });
    const lost = attemptForTests({ number: 2, slurmId: '30', submittedAt });
    job.folder.writeAttempt(1, lost);
    const known = { state: 'running' } as const;
    const [script, ...others] = await look(job, { slurm: [known] });
    expect(others).toEqual([]);
    expect(script).toContain(`--comment=plimsoll:${job.folder.key}:1.2`);
    expect(script).toContain('--array=1\n');
    expect(script).not.toContain('--array=0-1');
    expect(job.folder.attempt(1, 2)).toMatchObject({ slurmId: '18', formerIds: ['30'] });
  });

  it('submits an attempt that a node decided and could not submit before it was killed', async () => {
    const job = jobInFolder(home, submittedAt);
    job.folder.writeAttempt('all', attemptForTests({ number: 2, submittedAt }));
    expect(await look(job)).toHaveLength(1);
    expect(job.folder.attempt('all', 2)).toMatchObject({ slurmId: '18', formerIds: [] });
  });
});
