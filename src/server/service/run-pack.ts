import { basename } from 'node:path';
import { openDevices, type Settings } from '../../config/settings.js';
import { localEngine } from '../../engine/local/local-engine.js';
import { keepPeak, keptPeaks, measuredFolder } from '../../engine/measured-peaks.js';
import { readAllocation, withinAllocation } from '../../engine/slurm/allocation.js';
import { expectedSeconds, measuredRun, workloadKey } from '../../jobs/corrections.js';
import { openDaemon } from '../../jobs/daemon/open-daemon.js';
import { environmentForJobs } from '../../jobs/daemon/running/job-files.js';
import { judgeNeed } from '../../jobs/daemon/submission/need.js';
import type { Daemon, JobView } from '../../jobs/daemon/types.js';
import { endMarginSeconds, outOfTime, type PackedJob } from '../../jobs/pack/pack-list.js';
import { hasEnded } from '../../jobs/types.js';
import { systemClock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';

export interface PackOptions {
  readonly jobs: readonly PackedJob[];
  /** The home that keeps peaks for the next list. */
  readonly home: string;
  /** The home of this list's store, logs and runs. */
  readonly ownHome: string;
  readonly settings: Settings;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly plimsoll: readonly string[];
  readonly secondsLeft: () => Promise<Known<number>>;
  readonly signal: AbortSignal;
  readonly onChange: (text: string) => void;
}

/** The result of one line of the list. */
export interface PackedResult {
  readonly job: PackedJob;
  /** `left`: it was not started, or cut off by the end of the allocation. */
  readonly outcome: 'succeeded' | 'failed' | 'left';
  readonly view: JobView;
}

const lookSeconds = 0.5;

/** Runs a list on the devices of this machine or allocation, as many at a time as their memory allows. */
export async function runPack(options: PackOptions): Promise<readonly PackedResult[]> {
  const { home, ownHome, settings, folder } = options;
  const discovery = withinAllocation(
    await openDevices(settings),
    readAllocation(options.environment),
  );
  const environment = environmentForJobs(options.environment);
  try {
    const daemon = await openDaemon({
      home: ownHome,
      discovery,
      engine: localEngine({ home: ownHome, command: options.plimsoll, environment, folder }),
      environment,
      folder,
      loadLine: settings.loadLinePercent / 100,
      gpus: settings.gpus,
    });
    try {
      const ids = await submitAll(daemon, options);
      await untilDone(daemon, ids, options);
      const views = ids.map((id) => daemon.job(id));
      keepPeaks(options.jobs, views, measuredFolder(home));
      return options.jobs.map((job, index) => resultOf(job, daemon.job(ids[index] ?? '')));
    } finally {
      await daemon.close();
    }
  } finally {
    discovery.close();
  }
}

async function submitAll(daemon: Daemon, options: PackOptions): Promise<readonly string[]> {
  const offerBytes = Math.max(0, ...daemon.devices().map(({ loadLineBytes }) => loadLineBytes));
  const ids: string[] = [];
  for (const job of options.jobs) {
    const { gpus = 1, memoryBytes: statedBytes } = job;
    const runs = keptPeaks(measuredFolder(options.home), keyOf(job));
    const { need, alone } = judgeNeed({
      gpus,
      statedBytes,
      estimatedBytes: 'unknown',
      runs,
      offerBytes,
    });
    const { id } = await daemon.submit({
      command: job.command,
      gpus,
      batch: job.batch,
      name:
        job.name ??
        basename(job.command.find((word) => /\.\w+$/.test(word)) ?? job.command[0] ?? ''),
      cwd: options.folder,
      memoryBytes: alone ? undefined : need.bytes,
      estimateTimeoutSeconds: 0,
    });
    ids.push(id);
  }
  return ids;
}

function keyOf({ command, batch, gpus = 1 }: PackedJob): string {
  return workloadKey({ command, settings: { batch }, gpus });
}

async function untilDone(
  daemon: Daemon,
  ids: readonly string[],
  options: PackOptions,
): Promise<void> {
  const expected = new Map(
    options.jobs.map((job, index) => [
      ids[index] ?? '',
      expectedSeconds(keptPeaks(measuredFolder(options.home), keyOf(job))),
    ]),
  );
  for (;;) {
    const views = ids.map((id) => daemon.job(id));
    const open = views.filter(({ state }) => !hasEnded(state));
    options.onChange(progressWords(views));
    if (open.length === 0) return;
    const left = await options.secondsLeft();
    const waiting = open
      .filter(({ state }) => state === 'waiting')
      .map(({ id }) => ({ id, expectedSeconds: expected.get(id) ?? ('unknown' as const) }));
    const late = outOfTime(waiting, left, longest(views));
    const isOver = options.signal.aborted || (isKnown(left) && left <= endMarginSeconds / 2);
    for (const id of isOver ? open.map((view) => view.id) : late) await cancelled(daemon, id);
    const wait = isOver ? new AbortController().signal : options.signal;
    await systemClock.waitUntil(systemClock.seconds() + lookSeconds, wait);
  }
}

/** One that ended in this moment needs no cancelling. */
async function cancelled(daemon: Daemon, id: string): Promise<void> {
  try {
    await daemon.cancel(id);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'job-has-ended')) throw error;
  }
}

function longest(views: readonly JobView[]): Known<number> {
  const seconds = views
    .filter(({ state }) => state === 'succeeded')
    .map(
      ({ startedAt, endedAt }) => (Date.parse(endedAt ?? '') - Date.parse(startedAt ?? '')) / 1000,
    );
  return seconds.length === 0 ? 'unknown' : Math.max(...seconds);
}

function progressWords(views: readonly JobView[]): string {
  const count = (state: JobView['state']) => views.filter((view) => view.state === state).length;
  const done = views.filter(({ state }) => hasEnded(state)).length;
  return `${done} of ${views.length} done, ${count('running')} running, ${count('waiting')} waiting`;
}

function keepPeaks(jobs: readonly PackedJob[], views: readonly JobView[], folder: string): void {
  for (const [index, job] of jobs.entries()) {
    for (const attempt of views[index]?.attempts ?? []) {
      const run = measuredRun(attempt);
      if (run !== undefined) keepPeak(folder, keyOf(job), run, systemClock.epochMs());
    }
  }
}

function resultOf(job: PackedJob, view: JobView): PackedResult {
  const outcome =
    view.state === 'succeeded' ? 'succeeded' : view.state === 'cancelled' ? 'left' : 'failed';
  return { job, outcome, view };
}
