import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/folders.js';
import { readOwnDocument } from '../../files/own-file.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { KiB } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import {
  type ClusterAttempt,
  type ClusterDevice,
  type ClusterEngine,
  type ClusterJob,
  type ClusterOrder,
  type ClusterState,
  clusterStates,
  hasClusterEnded,
} from '../cluster.js';
import { refuseEnded, unknownJob, unreadableJob } from '../job-failures.js';
import { type Task, writeOnce } from '../job-folder.js';
import { measuredFolder } from '../measured-peaks.js';
import { type SlurmCommand, slurmDocument } from './commands.js';
import {
  jobFolders,
  newJobFolder,
  type SlurmAttempt,
  type SlurmEnd,
  type SlurmJobFolder,
  type SlurmOrder,
  silentMs,
} from './job-folder.js';
import { readJobs, reasonWords, type SlurmJob } from './job-states.js';
import type { SlurmSettings } from './nodes.js';
import { optionsOf, readCluster, requestIn, type SlurmCluster } from './open-cluster.js';
import { arrayTasks } from './request.js';
import {
  isToBeRepeated,
  readController,
  resubmitLost,
  type SlurmController,
} from './resubmit-lost.js';
import { attemptOf, commentOf, scriptOf, submitAttempt } from './submit-attempt.js';

interface SlurmEngineOptions {
  /** On a file system that all nodes have: `$PLIMSOLL_HOME`. */
  readonly home: string;
  readonly run: SlurmCommand;
  /** Of the person who submits. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The command `plimsoll` as the nodes start it. */
  readonly plimsoll: readonly string[];
  readonly settings: SlurmSettings;
  /** Cards of the configuration. */
  readonly gpus: readonly GpuEntry[];
  readonly clock?: Clock;
}

const justTaken = { state: 'waiting', why: '' } as const;
/** More than this is read in several pieces. */
const maxLogBytes = 8 * 1024 * 1024;

/**
 * Slurm, as an ordinary user of a cluster has it: its commands, and a shared file system. No process
 * of ours runs between two commands; what is known of a job is in its folder and in Slurm.
 */
export function slurmEngine(options: SlurmEngineOptions): ClusterEngine {
  const { home, run, clock = systemClock } = options;

  async function prepared(order: ClusterOrder): Promise<{
    folder: SlurmJobFolder;
    order: SlurmOrder;
    attempt: SlurmAttempt;
  }> {
    const sbatchOptions = [...optionsOf(options.environment), ...order.options];
    arrayTasks(sbatchOptions);
    const request = requestIn(await clusterFor(sbatchOptions), {
      bytes: order.needBytes,
      gpus: order.gpus,
    });
    const atMs = clock.epochMs();
    const folder = newJobFolder(home, atMs);
    const { options: _own, ...rest } = order;
    return {
      folder,
      order: {
        schema: 1,
        key: folder.key,
        ...rest,
        submittedAt: new Date(atMs).toISOString(),
        sbatchOptions,
        plimsoll: options.plimsoll,
        measured: measuredFolder(home),
      },
      attempt: {
        schema: 1,
        number: 1,
        request,
        slurmId: 'unknown',
        submittedAt: new Date(atMs).toISOString(),
      },
    };
  }

  function clusterFor(sbatchOptions: readonly string[]): Promise<SlurmCluster> {
    return readCluster(run, options.settings, options.gpus, sbatchOptions);
  }

  async function slurmJobs(): Promise<readonly SlurmJob[]> {
    return readJobs(slurmDocument(await run('squeue', ['--json', '--states=all']), 'squeue'));
  }

  /** Asks the controller at most once for each look at the cluster. */
  function controllerOnce(): () => Promise<SlurmController> {
    let asked: Promise<SlurmController> | undefined;
    return () => (asked ??= readController(run));
  }

  async function viewOf(
    folder: SlurmJobFolder,
    slurm: readonly SlurmJob[],
    controller: () => Promise<SlurmController>,
  ): Promise<readonly ClusterJob[]> {
    const order = folder.order();
    if (order === undefined) return [];
    const notes: string[] = [];
    let lost: Standings = new Map();
    keepEnds(folder, order, slurm, new Date(clock.epochMs()).toISOString());
    try {
      await releaseHeld(folder, slurm, run);
      const nowMs = clock.epochMs();
      lost = await resubmitLost({ folder, order, slurm, look: slurmJobs, controller, nowMs }, run);
    } catch (error) {
      // One job that Slurm refuses to let go on must not hide the others.
      if (!(error instanceof Failure)) throw error;
      notes.push(`${error.message} The next look tries again.`);
    }
    const view = jobView(folder, order, slurm, lost);
    return [{ ...view, notes: [...view.notes, ...notes] }];
  }

  function folderOf(id: string): SlurmJobFolder {
    const all = jobFolders(home);
    const key = keyOfName(home, id) ?? id;
    const found =
      all.find((folder) => folder.key === key) ??
      all.find((folder) => nameOf(folder.attempt('all', 1)) === id);
    if (found !== undefined) return found;
    throw unknownJob(id, 'slurm', 'Slurm');
  }

  const engine: ClusterEngine = {
    name: 'slurm',
    placesJobs: true,
    enforces: {
      gpu: 'the SDK limits PyTorch to what the shards stand for',
      host: 'the supervisor on the node, and Slurm where the site limits memory',
    },
    async devices(own = []): Promise<readonly ClusterDevice[]> {
      const { offers } = await clusterFor([...optionsOf(options.environment), ...own]);
      return offers.flatMap(({ nodes, type, count, capacityBytes }) =>
        nodes.names.flatMap((node) =>
          Array.from({ length: count }, (_, index) => ({
            name: `${node}/gpu:${index}`,
            type,
            capacityBytes,
          })),
        ),
      );
    },
    async preview(order) {
      return scriptOf({ ...(await prepared(order)), task: 'all', options: [] });
    },
    async submit(order) {
      const parts = { ...(await prepared(order)), task: 'all' as const, options: [] };
      parts.folder.create(parts.order);
      parts.folder.claimAttempt('all', parts.attempt);
      try {
        const submitted = await submitAttempt(parts, run);
        const jobName = claimName(home, submitted.slurmId, parts.folder.key);
        parts.folder.writeAttempt('all', { ...submitted, jobName });
      } catch (error) {
        parts.folder.remove();
        throw error;
      }
      // A controller that has just taken it may be restarting.
      const slurm = await slurmJobs().catch(() => []);
      return jobView(parts.folder, parts.order, slurm, new Map([['all', justTaken]]));
    },
    async jobs(most) {
      const slurm = await slurmJobs();
      const controller = controllerOnce();
      const views: ClusterJob[] = [];
      for (const folder of jobFolders(home).slice(0, most)) {
        views.push(...(await viewOf(folder, slurm, controller)));
      }
      return views;
    },
    async job(id) {
      const folder = folderOf(id);
      const [view] = await viewOf(folder, await slurmJobs(), controllerOnce());
      if (view !== undefined) return view;
      throw unreadableJob(folder.path, 'Slurm');
    },
    async log(id, from) {
      const folder = folderOf(id);
      const ids = allAttempts(folder).flatMap(({ slurmId, formerIds = [] }) =>
        formerIds.concat(slurmId),
      );
      return readFrom(
        [...new Set(ids)].map((slurmId) => folder.logFile(slurmId)),
        from,
      );
    },
    async cancel(id) {
      const folder = folderOf(id);
      refuseEnded(await engine.job(id));
      folder.markCancelled();
      // By our comment: a number of a job that Slurm lost may be another job's now.
      const ids = (await slurmJobs())
        .filter((job) => attemptOf(folder.key, job) !== undefined && !hasClusterEnded(job.state))
        .map((job) => job.id);
      if (ids.length > 0) await run('scancel', ['--quiet', ...ids]);
      return engine.job(id);
    },
    async use() {
      const slurm = await slurmJobs();
      return jobFolders(home).flatMap((folder) => {
        const attempt = allAttempts(folder).at(-1);
        const job =
          attempt === undefined ? undefined : slurmJobOf(folder.key, attempt, 'all', slurm);
        if (attempt === undefined || job?.state !== 'running') return [];
        const { limitBytes } = attempt.request;
        const reservedBytes = typeof limitBytes === 'number' ? limitBytes : ('unknown' as const);
        return [
          { jobId: nameOf(folder.attempt('all', 1)) ?? job.id, device: job.nodes, reservedBytes },
        ];
      });
    },
  };
  return engine;
}

/** The first one, and those that single tasks had after it. */
function allAttempts(folder: SlurmJobFolder): readonly SlurmAttempt[] {
  const tasks: readonly Task[] = arrayTasks(folder.order()?.sbatchOptions ?? []) ?? ['all'];
  const first = folder.attempt('all', 1);
  return [
    ...(first === undefined ? [] : [first]),
    ...tasks.flatMap((task) => folder.attempts(task).slice(1)),
  ];
}

/** Slurm forgets a job some minutes after its end: what it says is kept. */
function keepEnds(
  folder: SlurmJobFolder,
  order: SlurmOrder,
  slurm: readonly SlurmJob[],
  endedAt: string,
): void {
  for (const task of arrayTasks(order.sbatchOptions) ?? ['all' as const]) {
    const last = folder.attempts(task).at(-1);
    const job = last === undefined ? undefined : slurmJobOf(folder.key, last, task, slurm);
    if (last === undefined || job === undefined || folder.end(task, last.number)) continue;
    if (isToBeRepeated(job, last)) continue;
    const { state } = job;
    if (state !== 'succeeded' && state !== 'failed' && state !== 'cancelled') continue;
    folder.keepEnd(task, last.number, {
      schema: 1,
      outcome: state,
      exitCode: job.exitCode,
      outOfMemory: job.slurmState === 'OUT_OF_MEMORY',
      peakBytes: 'unknown',
      node: job.nodes,
      endedAt,
      slurmState: job.slurmState,
    });
  }
}

/** The bytes of files in a row, from one of them on. */
function readFrom(paths: readonly string[], from: number): Buffer {
  const pieces: Buffer[] = [];
  let skip = from;
  let room = maxLogBytes;
  for (const path of paths) {
    let file: number;
    try {
      file = openSync(path, 'r');
    } catch {
      // It has not begun yet.
      continue;
    }
    try {
      const { size } = fstatSync(file);
      const piece = Buffer.alloc(Math.max(0, Math.min(size - skip, room)));
      const read = piece.length === 0 ? 0 : readSync(file, piece, 0, piece.length, skip);
      pieces.push(piece.subarray(0, read));
      room -= read;
      skip = Math.max(0, skip - size);
    } finally {
      closeSync(file);
    }
  }
  return Buffer.concat(pieces);
}

/**
 * Slurm holds a job whose launch failed; it may go on. One that has ended may not: a controller that
 * was killed and comes back with an older state launches it a second time. While a node still runs it,
 * it stays held.
 */
export async function releaseHeld(
  folder: Pick<SlurmJobFolder, 'key' | 'end' | 'mayBeRunning'>,
  slurm: readonly Pick<SlurmJob, 'id' | 'comment' | 'arrayTask' | 'isHeldAfterLaunch'>[],
  run: SlurmCommand,
): Promise<void> {
  for (const job of slurm) {
    const attempt = job.isHeldAfterLaunch ? attemptOf(folder.key, job) : undefined;
    if (attempt === undefined) continue;
    const { task, number } = attempt;
    if (folder.end(task, number) !== undefined) await run('scancel', [job.id]);
    else if (!folder.mayBeRunning(task, number, silentMs))
      await run('scontrol', ['release', job.id]);
  }
}

/** A key and nothing else. */
const maxBytes = 4 * KiB;

/**
 * Returns the user's name of a job: its number in Slurm. A controller that lost its last seconds,
 * or whose state was removed, uses numbers a second time; the second job of a number has `-2` after
 * it.
 *
 * @example
 * claimName(home, '17', key); // '17'
 * claimName(home, '17', otherKey); // '17-2'
 */
export function claimName(home: string, slurmId: string, key: string): string {
  const folder = join(home, 'slurm', 'names');
  makeFolder(folder, 0o700);
  for (let copy = 1; ; copy++) {
    const name = copy === 1 ? slurmId : `${slurmId}-${copy}`;
    if (writeOnce(join(folder, name), { schema: 1, key })) return name;
  }
}

/** The key of the job that has this name; undefined where none has it. */
export function keyOfName(home: string, name: string): string | undefined {
  if (!/^\d{1,12}(-\d{1,6})?$/.test(name)) return undefined;
  const document = readOwnDocument(join(home, 'slurm', 'names', name), { schema: 1, maxBytes });
  return typeof document?.['key'] === 'string' ? document['key'] : undefined;
}

/** The state of one task: that of its last attempt. */
interface TaskView {
  readonly state: ClusterState;
  readonly why: string;
  readonly nodes: string;
  readonly attempts: readonly ClusterAttempt[];
}

/** The states of tasks that Slurm does not report. */
type Standings = ReadonlyMap<Task, Pick<TaskView, 'state' | 'why'>>;

/** A job as its files and Slurm tell together; files win, as Slurm forgets after some minutes. */
function jobView(
  folder: SlurmJobFolder,
  order: SlurmOrder,
  slurm: readonly SlurmJob[],
  lost: Standings,
): ClusterJob {
  const tasks = arrayTasks(order.sbatchOptions);
  const views = (tasks ?? ['all' as const]).map((task) =>
    taskView(folder, task, slurm, lost.get(task)),
  );
  const [only] = views;
  const state = stateOf(views.map((view) => view.state));
  const shown = views.find((view) => view.state === state) ?? only;
  const first = folder.attempt('all', 1);
  return {
    engine: 'slurm',
    id: nameOf(first) ?? folder.key,
    name: order.name,
    command: order.command,
    state,
    why: shown?.why ?? '',
    gpus: order.gpus,
    needBytes: order.needBytes,
    basis: order.basis,
    nodes: [...new Set(views.map(({ nodes }) => nodes).filter((nodes) => nodes !== ''))].join(),
    submittedAt: order.submittedAt,
    attempts:
      (tasks === undefined ? only : views.findLast(({ attempts }) => attempts.length > 1))
        ?.attempts ??
      only?.attempts ??
      [],
    notes: [
      ...((folder.attempts('all').at(-1) ?? first)?.request.notes ?? []),
      ...lostNotes(first),
    ],
    tasks: tasks === undefined ? null : counts(views.map((view) => view.state)),
  };
}

/** Returns the user's name of a job, even after Slurm gave it a new number. */
function nameOf(first: SlurmAttempt | undefined): string | undefined {
  const name = first?.jobName ?? first?.formerIds?.[0] ?? first?.slurmId;
  return name === undefined || !isKnown(name) ? undefined : name;
}

function lostNotes(first: SlurmAttempt | undefined): readonly string[] {
  const former = first?.formerIds ?? [];
  if (first === undefined || former.length === 0) return [];
  const as = isKnown(first.slurmId) ? ` as job ${first.slurmId}` : '';
  return [`Slurm's controller lost job ${former.join(' and job ')}: it was submitted again${as}.`];
}

function taskView(
  folder: SlurmJobFolder,
  task: Task,
  slurm: readonly SlurmJob[],
  lost: Pick<TaskView, 'state' | 'why'> | undefined,
): TaskView {
  const attempts = folder.attempts(task);
  const ends = attempts.map(({ number }) => folder.end(task, number));
  const last = attempts.at(-1);
  const end = ends.at(-1);
  const known = last === undefined ? undefined : slurmJobOf(folder.key, last, task, slurm);
  const before = attempts.at(-2);
  const isDeciding =
    last?.slurmId === 'unknown' &&
    before !== undefined &&
    slurmJobOf(folder.key, before, task, slurm)?.state === 'running';
  const { state, why } =
    end !== undefined
      ? ended(end, folder.isCancelled)
      : isDeciding
        ? deciding
        : lost !== undefined && (known === undefined || hasClusterEnded(known.state))
          ? lost
          : now(last, known, folder.isCancelled);
  return {
    state,
    why,
    nodes: end?.node ?? known?.nodes ?? '',
    attempts: attempts.map((attempt, index) => attemptView(attempt, ends[index])),
  };
}

/** The attempt before still runs: it is about to submit this one. */
const deciding = { state: 'running', why: 'out of memory: Slurm is asked for more' } as const;

/** The row of an attempt in what squeue printed: by its number, or by our comment. */
function slurmJobOf(
  key: string,
  { slurmId, number }: SlurmAttempt,
  task: Task,
  slurm: readonly SlurmJob[],
): SlurmJob | undefined {
  const comment = commentOf(key, number === 1 ? 'all' : task, number);
  // A controller that lost its last seconds gives the same numbers again: the comment decides.
  const own = slurm.filter(
    (job) =>
      job.comment === comment &&
      (!isKnown(slurmId) || job.id === slurmId || job.arrayJob === slurmId),
  );
  if (task === 'all') return own[0];
  // Tasks that wait are one row without a task of their own.
  return (
    own.find(({ arrayTask }) => arrayTask === task) ??
    own.find(({ arrayTask, state }) => !isKnown(arrayTask) && state === 'waiting') ??
    own.find(({ arrayJob }) => arrayJob === 'none')
  );
}

function ended(end: SlurmEnd, isCancelled: boolean): Pick<TaskView, 'state' | 'why'> {
  if (end.outcome === 'succeeded') return { state: 'succeeded', why: '' };
  if (isCancelled || end.outcome === 'cancelled') return { state: 'cancelled', why: '' };
  const by = end.slurmState === '' ? '' : ` (Slurm: ${end.slurmState})`;
  const code = isKnown(end.exitCode) ? `exit code ${end.exitCode}` : 'exit code unknown';
  return { state: 'failed', why: `${end.outOfMemory ? 'out of memory' : code}${by}` };
}

function now(
  attempt: SlurmAttempt | undefined,
  job: SlurmJob | undefined,
  isCancelled: boolean,
): Pick<TaskView, 'state' | 'why'> {
  if (job === undefined) {
    if (isCancelled) return { state: 'cancelled', why: '' };
    if (attempt === undefined || !isKnown(attempt.slurmId)) {
      return { state: 'unknown', why: 'the answer of sbatch was never seen' };
    }
    return {
      state: 'unknown',
      why: `Slurm no longer knows job ${attempt.slurmId}, and it left no result`,
    };
  }
  const words = reasonWords(job.slurmReason);
  const reason = [job.slurmReason, words].filter((text) => text !== '').join(': ');
  const why =
    hasClusterEnded(job.state) && job.state !== 'succeeded' ? `Slurm: ${job.slurmState}` : reason;
  return { state: job.state, why };
}

function attemptView(attempt: SlurmAttempt, end: SlurmEnd | undefined): ClusterAttempt {
  const { limitBytes, gres } = attempt.request;
  return {
    number: attempt.number,
    clusterId: attempt.slurmId,
    request: gres === 'none' ? `mem=${attempt.request.memoryMebibytes}M` : gres,
    reservedBytes: typeof limitBytes === 'number' ? limitBytes : 'unknown',
    peakBytes: end?.peakBytes ?? 'unknown',
    outOfMemory: end?.outOfMemory ?? false,
    exitCode: end?.exitCode ?? 'unknown',
  };
}

/** An array runs while one of its tasks does, and succeeded when all of them have. */
function stateOf(states: readonly ClusterState[]): ClusterState {
  const order: readonly ClusterState[] = [
    'running',
    'waiting',
    'failed',
    'unknown',
    'cancelled',
    'succeeded',
  ];
  return order.find((state) => states.includes(state)) ?? 'unknown';
}

function counts(states: readonly ClusterState[]): ClusterJob['tasks'] {
  return Object.fromEntries(
    clusterStates
      .map((state) => [state, states.filter((one) => one === state).length] as const)
      .filter(([, count]) => count > 0),
  );
}
