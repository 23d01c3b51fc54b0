import { describe, expect, it } from 'vitest';
import { endForTests } from './job-for-tests.js';
import { releaseHeld } from './slurm-engine.js';

const held: Parameters<typeof releaseHeld>[1][number] = {
  id: '7',
  comment: 'plimsoll:k:all.1',
  arrayTask: 'none',
  isHeldAfterLaunch: true,
};

/** Returns the commands run for this job after these attempts ended; those with a star still run. */
async function ranFor(job: typeof held, ...known: readonly string[]): Promise<readonly string[]> {
  const ran: string[] = [];
  const folder = {
    key: 'k',
    end: (task: number | 'all', number: number) =>
      known.includes(`${task}.${number}`) ? endForTests : undefined,
    mayBeRunning: (task: number | 'all', number: number) => known.includes(`${task}.${number}*`),
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

  it('leaves one held that a node still runs: released, it would run twice at the same time', async () => {
    expect(await ranFor(held, 'all.1*')).toEqual([]);
    expect(await ranFor({ ...held, arrayTask: 3 }, '3.1*')).toEqual([]);
    expect(await ranFor({ ...held, arrayTask: 4 }, '3.1*')).toEqual(['scontrol release 7']);
    expect(await ranFor({ ...held, arrayTask: 3 }, '3.1')).toEqual(['scancel 7']);
  });

  it('leaves others alone', async () => {
    expect(await ranFor({ ...held, comment: 'plimsoll:k2:all.1' })).toEqual([]);
    expect(await ranFor({ ...held, comment: '' })).toEqual([]);
    expect(await ranFor({ ...held, isHeldAfterLaunch: false })).toEqual([]);
  });
});
