import { mkdtempSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { awaitTurn, isOver, type SlurmEnd, type SlurmJobFolder } from './job-folder.js';
import { endForTests, jobInFolder } from './job-for-tests.js';

let home: string;
let folder: SlurmJobFolder;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-turns-'));
  ({ folder } = jobInFolder(home, new Date().toISOString()));
});
afterEach(() => rmSync(home, { recursive: true }));

/** Waits for its turn while these events happen; fails if the look never ends. */
async function turnOf(clusterId: string, ...meanwhile: readonly (() => void)[]): Promise<string> {
  const left = [...meanwhile];
  let waited = 0;
  let isAsked = false;
  const got = await awaitTurn({
    folder,
    task: 'all',
    number: 1,
    clusterId,
    restart: 0,
    isAskedToEnd: () => isAsked,
    async wait() {
      waited++;
      const next = left.shift();
      if (next === undefined) isAsked = true;
      else next();
    },
  });
  return `${got ? 'its turn' : 'asked to end'} after ${waited}`;
}

describe('awaitTurn', () => {
  it('comes at once where no other start runs, and again after its own process was killed', async () => {
    expect(await turnOf('17-a')).toBe('its turn after 0');
    expect(await turnOf('17-a')).toBe('its turn after 0');
    expect(folder.turns('all', 1)).toEqual([{ number: 1, start: '17-a.0' }]);
  });

  it('waits for another start of the same number, until that has ended', async () => {
    await turnOf('17-a');
    expect(await turnOf('17-b', () => folder.markEnded('17-a', 0))).toBe('its turn after 1');
    expect(await turnOf('17-c')).toBe('asked to end after 1');
  });

  it('waits until a start is silent that was killed without a word', async () => {
    await turnOf('17-a');
    const old = Date.now() / 1000 - 3600;
    const silence = () => utimesSync(join(folder.path, 'started', '17-a.0'), old, old);
    expect(await turnOf('17-b', () => {}, silence)).toBe('its turn after 2');
  });

  it('is of one of two starts that see the silence together', async () => {
    await turnOf('17-a');
    folder.markEnded('17-a', 0);
    expect(folder.takeTurn('all', 1, { number: 2, start: '17-b.0' })).toBe(true);
    expect(folder.takeTurn('all', 1, { number: 2, start: '17-c.0' })).toBe(false);
  });
});

describe('isOver', () => {
  const end = (change: Partial<SlurmEnd>): SlurmEnd => ({
    ...endForTests,
    outcome: 'failed',
    exitCode: 1,
    of: { slurmId: '17', restart: 1 },
    ...change,
  });
  const at = (restart: number, slurmId = '17') => ({ slurmId, restart });

  it('is so of a job that ended and that an older state of the controller starts again', () => {
    expect(isOver(end({}), at(1))).toBe(true);
    expect(isOver(end({}), at(0))).toBe(true);
    // The tasks of an array that had ended when the others were lost.
    expect(isOver(end({}), at(0, '19'))).toBe(true);
    for (const restart of [0, 1, 2])
      expect(isOver(end({ outcome: 'succeeded' }), at(restart))).toBe(true);
  });

  it('is not so of a failed one that somebody requeued, nor where no node saw its end', () => {
    expect(isOver(end({}), at(2))).toBe(false);
    expect(isOver(end({ slurmState: 'NODE_FAIL' }), at(1))).toBe(false);
    expect(isOver(undefined, at(0))).toBe(false);
  });
});
