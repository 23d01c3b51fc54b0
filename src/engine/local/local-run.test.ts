import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../../test/run/running.js';
import { fillDisk, needsSmallDisk, smallDisk } from '../../../test/support/small-disk.js';
import { createVirtualClock } from '../../time/clock.js';
import type { RunNews, RunOrder } from '../engine.js';
import { LocalRun, maxTries, nextStep, type Standing } from './local-run.js';

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

const at = (parts: Partial<Standing>): Standing => ({
  nowSeconds: 100,
  supervisor: undefined,
  isStarting: false,
  tries: 0,
  triedAt: Number.NEGATIVE_INFINITY,
  stop: undefined,
  ...parts,
});

describe('nextStep', () => {
  it('finds a supervisor for a run that has none, and leaves alone one that has', () => {
    expect(nextStep(at({}))).toEqual({ step: 'attach' });
    expect(nextStep(at({ supervisor: 7 }))).toEqual({ step: 'wait' });
    expect(nextStep(at({ isStarting: true }))).toEqual({ step: 'wait' });
  });

  it('pauses longer each time a supervisor ended at once, and gives up in the end', () => {
    const pauses: number[] = [];
    for (let tries = 1; tries < maxTries; tries++) {
      let nowSeconds = 100;
      while (nextStep(at({ tries, triedAt: 100, nowSeconds })).step === 'wait') nowSeconds += 0.5;
      pauses.push(nowSeconds - 100);
    }
    expect(pauses).toEqual([1, 2, 4, 8]);
    expect(nextStep(at({ tries: maxTries, triedAt: 100 }))).toEqual({ step: 'give-up' });
  });

  it('asks a program to end, lets it have its time, then asks until it is killed', () => {
    const ask = { step: 'ask', pid: 7 };
    const stopped = (asked: number, askedAt: number) =>
      nextStep(at({ supervisor: 7, stop: { asked, askedAt } }));
    expect(stopped(0, Number.NEGATIVE_INFINITY)).toEqual(ask);
    expect(stopped(1, 91)).toEqual({ step: 'wait' });
    expect(stopped(1, 90)).toEqual(ask);
    expect(stopped(2, 99)).toEqual(ask);
    expect(stopped(5, 99.5)).toEqual({ step: 'wait' });
  });

  it('looks for a supervisor first where there is none to hear it', () => {
    expect(nextStep(at({ stop: { asked: 0, askedAt: 0 } }))).toEqual({ step: 'attach' });
  });
});
