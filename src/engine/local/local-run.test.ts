import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../../test/run/running.js';
import { fillDisk, needsSmallDisk, smallDisk } from '../../../test/support/small-disk.js';
import { createVirtualClock } from '../../time/virtual-clock.js';
import type { RunNews, RunOrder } from '../types.js';
import { LocalRun } from './local-run.js';

/** A run whose supervisor would leave a file behind; its home is a disk of 4 MB. */
function runOnSmallDisk() {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-local-'));
  const elsewhere = mkdtempSync(join(tmpdir(), 'plimsoll-local-'));
  onTestFinished(() => {
    for (const folder of [home, elsewhere]) rmSync(folder, { recursive: true, force: true });
  });
  smallDisk(home);
  const clock = createVirtualClock();
  const begun = join(elsewhere, 'begun');
  const news: RunNews[] = [];
  const order: RunOrder = {
    schema: 1,
    id: '20250101-000000000-0000-job1',
    command: ['true'],
    folder: elsewhere,
    createdAt: '2025-01-01T00:00:00.000Z',
    settings: {
      batch_size: 'unknown',
      accumulation: 1,
      checkpointing: false,
      precision: 'fp32',
      offload: false,
      device: 'host',
    },
    memoryBytes: null,
    maxAttempts: 1,
    pinnedDevice: false,
    reports: [],
    log: join(elsewhere, 'log'),
  };
  const run = new LocalRun(
    order,
    {
      home,
      command: ['/bin/sh', '-c', `: > '${begun}'`],
      environment: {},
      folder: elsewhere,
      clock,
      procRoot: '/proc',
    },
    (one) => news.push(one),
  );
  return { home, clock, news, run, begun };
}

/** An hour of looks. */
async function hourOfLooks({ run, clock }: ReturnType<typeof runOnSmallDisk>) {
  for (let minute = 0; minute < 60; minute++) {
    run.look();
    await clock.advance(60);
  }
}

describe('a run that is to begin while the disk is full', needsSmallDisk, () => {
  it('waits for room however long that takes, and begins then', async () => {
    const made = runOnSmallDisk();
    const filler = fillDisk(made.home);
    await hourOfLooks(made);
    expect(made.news).toEqual([]);
    expect(existsSync(made.begun)).toBe(false);
    rmSync(filler);
    made.run.look();
    await until(() => (existsSync(made.begun) ? true : undefined));
  });

  it('is over at once when it is stopped', async () => {
    const made = runOnSmallDisk();
    fillDisk(made.home);
    made.run.look();
    made.run.stop();
    made.run.look();
    await until(() => (made.news.length > 0 ? true : undefined));
    expect(made.news).toEqual([
      {
        type: 'lost',
        why: 'It was stopped while the disk was full; how it ended could not be written down.',
      },
    ]);
    expect(made.run.look()).toBe(true);
    expect(existsSync(made.begun)).toBe(false);
  });
});
