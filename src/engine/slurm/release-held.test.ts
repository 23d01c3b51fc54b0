import { describe, expect, it } from 'vitest';
import type { SlurmEnd } from './job-folder.js';
import { releaseHeld } from './release-held.js';

const end: SlurmEnd = {
  schema: 1,
  outcome: 'succeeded',
  exitCode: 0,
  outOfMemory: false,
  peakBytes: 'unknown',
  node: 'n1',
  endedAt: '2026-01-01T00:00:00.000Z',
  slurmState: '',
};
const held = { id: '7', comment: 'plimsoll:k:all.1', isHeldAfterLaunch: true };

/** What is run for this job where these attempts have ended. */
async function ranFor(job: typeof held, ...ended: readonly string[]): Promise<readonly string[]> {
  const ran: string[] = [];
  const folder = {
    key: 'k',
    end: (task: number | 'all', number: number) =>
      ended.includes(`${task}.${number}`) ? end : undefined,
  };
  await releaseHeld(folder, [job], async (program, words) => {
    ran.push([program, ...words].join(' '));
    return '';
  });
  return ran;
}

describe('releaseHeld', () => {
  it('lets a job go on whose launch failed', async () => {
    expect(await ranFor(held)).toEqual(['scontrol release 7']);
    const second = { ...held, comment: 'plimsoll:k:all.2' };
    expect(await ranFor(second, 'all.1')).toEqual(['scontrol release 7']);
  });

  it('cancels one that has ended: it would run twice', async () => {
    expect(await ranFor(held, 'all.1')).toEqual(['scancel 7']);
    expect(await ranFor({ ...held, comment: 'plimsoll:k:3.2' }, '3.2')).toEqual(['scancel 7']);
  });

  it('leaves others alone', async () => {
    expect(await ranFor({ ...held, comment: 'plimsoll:k2:all.1' })).toEqual([]);
    expect(await ranFor({ ...held, comment: '' })).toEqual([]);
    expect(await ranFor({ ...held, isHeldAfterLaunch: false })).toEqual([]);
  });
});
