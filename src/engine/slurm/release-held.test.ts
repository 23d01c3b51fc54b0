import { describe, expect, it } from 'vitest';
import type { SlurmEnd, SlurmJobFolder } from './job-folder.js';
import type { SlurmJob } from './job-states.js';
import { releaseHeld } from './release-held.js';

async function ranFor(jobs: readonly Partial<SlurmJob>[], ended: readonly string[]) {
  const ran: string[] = [];
  const folder = {
    key: 'k',
    end: (task: string, number: number) =>
      ended.includes(`${task}.${number}`) ? ({} as SlurmEnd) : undefined,
  } as SlurmJobFolder;
  await releaseHeld(folder, jobs as readonly SlurmJob[], async (program, words) => {
    ran.push([program, ...words].join(' '));
    return '';
  });
  return ran;
}

describe('releaseHeld', () => {
  const held = { id: '7', comment: 'plimsoll:k:all.1', isHeldAfterLaunch: true };

  it('lets a job go on whose launch failed', async () => {
    expect(await ranFor([held], [])).toEqual(['scontrol release 7']);
    expect(await ranFor([{ ...held, comment: 'plimsoll:k:all.2' }], ['all.1'])).toEqual([
      'scontrol release 7',
    ]);
  });

  it('cancels one that has ended: it would run twice', async () => {
    expect(await ranFor([held], ['all.1'])).toEqual(['scancel 7']);
  });

  it('leaves others alone', async () => {
    const others = [
      { comment: 'plimsoll:k2:all.1' },
      { comment: '' },
      { isHeldAfterLaunch: false },
    ];
    expect(
      await ranFor(
        others.map((one) => ({ ...held, ...one })),
        [],
      ),
    ).toEqual([]);
  });
});
