import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import type { ClusterAttempt, ClusterEngine, ClusterJob, ClusterState } from '../cluster.js';
import { refuseEnded, unknownJob, unreadableJob } from '../job-failures.js';
import { objectIn, objectsIn, runningMs, textIn } from '../job-folder.js';
import { measuredFolder } from '../measured-peaks.js';
import type { RayHttp } from './http.js';
import {
  newRayFolder,
  type RayAttempt,
  type RayEnd,
  type RayJobFolder,
  type RayOrder,
  rayFolders,
  rayOptions,
} from './job-folder.js';
import { type RayNode, type RaySettings, rayOffers, readNodes } from './nodes.js';
import { type RayRequest, rayRequest } from './request.js';
import { readVersion, submissionOf, submitToRay } from './submission.js';

interface RayEngineOptions {
  /** On a file system that all nodes have: `$PLIMSOLL_HOME`. */
  readonly home: string;
  readonly http: RayHttp;
  /** The command `plimsoll` as the nodes start it. */
  readonly plimsoll: readonly string[];
  /** Of the programs. */
  readonly environment: Readonly<Record<string, string>>;
  readonly settings: RaySettings;
  /** Cards of the configuration. */
  readonly gpus: readonly GpuEntry[];
  readonly clock?: Clock;
}

/** A node that was silent for so long runs a job no more: file systems show times late. */
const silentMs = 12 * runningMs;
/** The process that began to submit a lost job again has done so by then, or died. */
const claimMs = 60_000;

/** The answers of Ray at one moment. */
interface RayNow {
  readonly session: string;
  readonly jobs: ReadonlyMap<string, RayJob>;
  /** Names of nodes, by Ray's ids. */
  readonly nodes: ReadonlyMap<string, string>;
}

/**
 * Ray, through its Jobs API and a shared file system. No process of ours runs between two commands;
 * what is known of a job is in its folder and in Ray.
 */
export function rayEngine(options: RayEngineOptions): ClusterEngine {
  const { home, http, clock = systemClock } = options;
  const logs = new RayLogs(http);

  async function prepared(
    order: Parameters<ClusterEngine['submit']>[0],
  ): Promise<{ folder: RayJobFolder; order: RayOrder; attempt: RayAttempt }> {
    const added = rayOptions(order.options);
    await readVersion(http);
    const nodes = await readNodes(http);
    const offers = rayOffers(nodes, options.settings, options.gpus);
    const request = rayRequest({ bytes: order.needBytes, gpus: order.gpus }, offers);
    const atMs = clock.epochMs();
    const folder = newRayFolder(home, atMs);
    return {
      folder,
      order: {
        ...order,
        schema: 1,
        key: folder.key,
        submittedAt: new Date(atMs).toISOString(),
        plimsoll: options.plimsoll,
        measured: measuredFolder(home),
        addresses: addressesFor(http.address, nodes),
        environment: options.environment,
        options: added,
        offers,
      },
      attempt: { schema: 1, number: 1, restart: 0, session: 'unknown', request },
    };
  }

  async function look(ids: readonly string[] | 'all'): Promise<RayNow> {
    const { session } = await readVersion(http);
    const found =
      ids === 'all'
        ? rayJobsIn(await http.get('/api/jobs/'))
        : await Promise.all(ids.map(async (id) => rayJobIn(await http.get(`/api/jobs/${id}`))));
    const jobs = found.flatMap((job) => (job === undefined ? [] : [job]));
    const nodes = jobs.some(({ nodeId }) => nodeId !== '') ? await readNodes(http) : [];
    return {
      session,
      jobs: new Map(jobs.map((job) => [job.id, job])),
      nodes: new Map(nodes.map(({ id, name }) => [id, name])),
    };
  }

  /** An attempt that a node submitted after Ray had listed its jobs: Ray is asked for it alone. */
  async function takenSince(
    folder: RayJobFolder,
    attempt: RayAttempt,
    { session }: RayNow,
  ): Promise<RayJob | undefined> {
    const hasEnded = folder.end('all', attempt.number) !== undefined;
    if (hasEnded || attempt.session !== session) return undefined;
    return rayJobIn(await http.get(`/api/jobs/${folder.idOf(attempt)}`));
  }

  /** How it stands, after what had to be done about it. */
  async function viewOf(folder: RayJobFolder, now: RayNow): Promise<readonly ClusterJob[]> {
    const order = folder.order();
    const attempt = folder.attempts('all').at(-1);
    if (order === undefined || attempt === undefined) return [];
    const job = now.jobs.get(folder.idOf(attempt)) ?? (await takenSince(folder, attempt, now));
    const end = folder.end('all', attempt.number);
    const standing = standingOf({
      attempt,
      end,
      job,
      isCancelled: folder.isCancelled,
      mayRun: end === undefined && folder.mayRun(silentMs),
      session: now.session,
    });
    await act(folder, order, attempt, standing, job);
    const node = now.nodes.get(job?.nodeId ?? '');
    return [jobView(folder, order, standing, node)];
  }

  async function act(
    folder: RayJobFolder,
    order: RayOrder,
    attempt: RayAttempt,
    { todo, state }: Standing,
    job: RayJob | undefined,
  ): Promise<void> {
    if (todo === 'send') await submitToRay(http, folder, order, attempt);
    if (todo === 'again') {
      const nowMs = clock.epochMs();
      if (!folder.claimLost(folder.idOf(attempt), nowMs - claimMs)) return;
      const again = { ...attempt, restart: attempt.restart + 1, session: 'unknown' };
      folder.writeAttempt('all', again);
      await submitToRay(http, folder, order, again);
    }
    if (todo === 'keep' && (state === 'succeeded' || state === 'failed' || state === 'cancelled')) {
      folder.keepEnd('all', attempt.number, {
        schema: 1,
        outcome: state,
        exitCode: job?.exitCode ?? 'unknown',
        outOfMemory: false,
        peakBytes: 'unknown',
        node: '',
        endedAt: new Date(clock.epochMs()).toISOString(),
        rayState: job?.errorType || (job?.status ?? ''),
      });
    }
  }

  function folderOf(id: string): RayJobFolder {
    const found = rayFolders(home).find((folder) => folder.id === id || folder.key === id);
    if (found === undefined) throw unknownJob(id, 'ray', 'Ray');
    return found;
  }

  const engine: ClusterEngine = {
    name: 'ray',
    placesJobs: true,
    enforces: {
      gpu: 'the SDK limits PyTorch to the share of the card',
      host: 'the supervisor on the node',
    },
    async devices() {
      const nodes = await readNodes(http);
      return nodes.flatMap((node) => {
        const [offer] = rayOffers([node], options.settings, options.gpus);
        return Array.from({ length: node.gpus }, (_, index) => ({
          name: `${node.name}/gpu:${index}`,
          type: node.type,
          capacityBytes: offer?.capacityBytes ?? 'unknown',
        }));
      });
    },
    async preview(given) {
      const { folder, order, attempt } = await prepared(given);
      const body = JSON.stringify(submissionOf(folder, order, attempt), null, 2);
      return `POST ${http.address}/api/jobs/\n${body}\n`;
    },
    async submit(given) {
      const { folder, order, attempt } = await prepared(given);
      folder.create(order);
      folder.claimAttempt('all', attempt);
      try {
        await submitToRay(http, folder, order, attempt);
      } catch (error) {
        // Where Ray took it all the same, the node finds nothing to run.
        folder.remove();
        throw error;
      }
      return jobView(folder, order, { state: 'waiting', why: '' }, undefined);
    },
    async jobs(most) {
      const now = await look('all');
      const views: ClusterJob[] = [];
      for (const folder of rayFolders(home).slice(0, most)) {
        views.push(...(await viewOf(folder, now)));
      }
      return views;
    },
    async job(id) {
      const folder = folderOf(id);
      const last = folder.attempts('all').at(-1);
      const now = await look(last === undefined ? [] : [folder.idOf(last)]);
      const [view] = await viewOf(folder, now);
      if (view === undefined) throw unreadableJob(folder.path, 'Ray');
      return view;
    },
    async log(id, from) {
      const folder = folderOf(id);
      return logs.read(
        folder.attempts('all').flatMap((attempt) => idsOf(folder, attempt)),
        from,
      );
    },
    async cancel(id) {
      const folder = folderOf(id);
      refuseEnded(await engine.job(id));
      folder.markCancelled();
      for (const attempt of folder.attempts('all')) {
        if (folder.end('all', attempt.number) !== undefined) continue;
        await http.post(`/api/jobs/${folder.idOf(attempt)}/stop`);
      }
      return engine.job(id);
    },
    async use() {
      const now = await look('all');
      return rayFolders(home).flatMap((folder) => {
        const attempt = folder.attempts('all').at(-1);
        const job = attempt === undefined ? undefined : now.jobs.get(folder.idOf(attempt));
        if (attempt === undefined || job?.status !== 'RUNNING') return [];
        const { limitBytes } = attempt.request;
        const reservedBytes = isNumber(limitBytes) ? limitBytes : ('unknown' as const);
        return [{ jobId: folder.id, device: now.nodes.get(job.nodeId) ?? '', reservedBytes }];
      });
    },
  };
  return engine;
}

function isNumber(value: number | 'none'): value is number {
  return value !== 'none' && isKnown(value);
}

/** Of an attempt that Ray lost, each start has a log of its own. */
function idsOf(folder: RayJobFolder, { number, restart }: RayAttempt): readonly string[] {
  return Array.from({ length: restart + 1 }, (_, index) => folder.idOf({ number, restart: index }));
}

/** A person may reach the head through a tunnel that nodes do not have. */
function addressesFor(address: string, nodes: readonly RayNode[]): readonly string[] {
  const { port } = new URL(address);
  const heads = nodes.filter(({ isHead, ip }) => isHead && ip !== '').map(({ ip }) => ip);
  const ports = new Set([port || '8265', '8265']);
  return [address, ...heads.flatMap((ip) => [...ports].map((own) => `http://${ip}:${own}`))];
}

/** More than this is answered in several pieces. */
const maxPieceBytes = 8 * 1024 * 1024;

/**
 * Reads the output of attempts through Ray. A log is lost with its node: the part read before
 * stays, so that a following reader loses no bytes of the next attempt.
 */
class RayLogs {
  readonly #http: RayHttp;
  readonly #seen = new Map<string, Buffer>();

  constructor(http: RayHttp) {
    this.#http = http;
  }

  /** From this byte on, of all attempts in a row. */
  async read(ids: readonly string[], from: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let skip = from;
    let room = maxPieceBytes;
    for (const id of ids) {
      const log = await this.#log(id);
      const piece = log.subarray(skip, skip + room);
      pieces.push(piece);
      room -= piece.length;
      skip = Math.max(0, skip - log.length);
    }
    return Buffer.concat(pieces);
  }

  async #log(id: string): Promise<Buffer> {
    const before = this.#seen.get(id) ?? Buffer.alloc(0);
    let answer: unknown;
    try {
      answer = await this.#http.get(`/api/jobs/${id}/logs`);
    } catch (error) {
      // A node that is gone, or one that has not begun: Ray answers with an error.
      if (error instanceof Error && 'code' in error && error.code === 'ray-refused') return before;
      throw error;
    }
    const log = Buffer.from(textIn(objectIn(answer)['logs']));
    if (log.length < before.length) return before;
    this.#seen.set(id, log);
    return log;
  }
}

/** Known facts about the last attempt of a job. */
export interface AttemptFacts {
  readonly attempt: RayAttempt;
  readonly end: RayEnd | undefined;
  /** Undefined where Ray does not know it. */
  readonly job: RayJob | undefined;
  readonly isCancelled: boolean;
  /** A node said a moment ago that it runs the job. */
  readonly mayRun: boolean;
  /** Of Ray, now. */
  readonly session: string;
}

/** The state of a job, and the next step. */
interface Standing {
  readonly state: ClusterState;
  readonly why: string;
  /**
   * `send`: it was decided and never sent; `again`: Ray lost it; `keep`: Ray alone knows how it ended,
   * and may forget it.
   */
  readonly todo: 'nothing' | 'send' | 'again' | 'keep';
}

/** After so many losses something else is wrong. */
export const maxRestarts = 20;

/** Decides the state of a job's last attempt. It submits again only if the attempt surely runs nowhere. */
export function standingOf(facts: AttemptFacts): Standing {
  const { end, job, isCancelled } = facts;
  if (end !== undefined) return ended(end, isCancelled);
  if (job === undefined) return isCancelled ? is('cancelled') : unseen(facts);
  const { status, message } = job;
  if (status === 'PENDING') return isCancelled ? is('cancelled') : is('waiting', message);
  if (status === 'RUNNING') return is('running');
  if (status === 'SUCCEEDED') return is('succeeded', '', 'keep');
  if (status === 'STOPPED') return is('cancelled', '', 'keep');
  if (status !== 'FAILED') return is('unknown', `Ray: ${status}`);
  if (!isLost(job)) return is('failed', `Ray: ${message}`, 'keep');
  return isCancelled ? is('cancelled', '', 'keep') : lost(facts, job);
}

function lost({ mayRun, attempt }: AttemptFacts, job: RayJob): Standing {
  const why = `Ray gave it up (${job.errorType || job.message})`;
  if (mayRun) return is('running', `${why}; its node runs it, or was heard a minute ago`);
  if (attempt.restart >= maxRestarts && !isOverdue(job)) return is('failed', why, 'keep');
  return is('waiting', `${why}: submitted again`, 'again');
}

function unseen({ attempt, mayRun, session }: AttemptFacts): Standing {
  if (!isKnown(attempt.session)) {
    if (attempt.number === 1 && attempt.restart === 0) {
      return is('unknown', 'the answer of Ray was never seen');
    }
    if (mayRun) return is('running', 'out of memory: Ray is asked for more');
    return is('waiting', '', 'send');
  }
  if (attempt.session === session) {
    return is('unknown', 'Ray no longer knows it, and it left no result');
  }
  if (mayRun)
    return is('running', "Ray's head was restarted; its node reported within the last minute");
  return is('waiting', "Ray's head was restarted: submitted again", 'again');
}

function ended(end: RayEnd, isCancelled: boolean): Standing {
  if (end.outcome === 'succeeded') return is('succeeded');
  if (isCancelled || end.outcome === 'cancelled') return is('cancelled');
  const by = end.rayState === '' ? '' : ` (Ray: ${end.rayState})`;
  const code = isKnown(end.exitCode) ? `exit code ${end.exitCode}` : 'exit code unknown';
  return is('failed', `${end.outOfMemory ? 'out of memory' : code}${by}`);
}

function is(state: ClusterState, why = '', todo: Standing['todo'] = 'nothing'): Standing {
  return { state, why, todo };
}

/** A job as its files and Ray tell together. */
function jobView(
  folder: RayJobFolder,
  order: RayOrder,
  { state, why }: Pick<Standing, 'state' | 'why'>,
  node: string | undefined,
): ClusterJob {
  const attempts = folder.attempts('all');
  const ends = attempts.map(({ number }) => folder.end('all', number));
  return {
    engine: 'ray',
    id: folder.id,
    name: order.name,
    command: order.command,
    state,
    why,
    gpus: order.gpus,
    needBytes: order.needBytes,
    basis: order.basis,
    nodes: node ?? ends.at(-1)?.node ?? '',
    submittedAt: order.submittedAt,
    attempts: attempts.map((attempt, index) => attemptView(folder, attempt, ends[index])),
    notes: attempts.at(-1)?.request.notes ?? [],
    tasks: null,
  };
}

function attemptView(
  folder: RayJobFolder,
  attempt: RayAttempt,
  end: RayEnd | undefined,
): ClusterAttempt {
  const { limitBytes } = attempt.request;
  return {
    number: attempt.number,
    clusterId: folder.idOf(attempt),
    request: askedWords(attempt.request),
    reservedBytes: typeof limitBytes === 'number' ? limitBytes : 'unknown',
    peakBytes: end?.peakBytes ?? 'unknown',
    outOfMemory: end?.outOfMemory ?? false,
    exitCode: end?.exitCode ?? 'unknown',
  };
}

/** In Ray's words. */
function askedWords({ numGpus, memoryBytes, numCpus, resources, labels }: RayRequest): string {
  const kinds = [...Object.keys(resources), ...Object.values(labels)];
  const parts = [
    ...(numGpus === 0 ? [] : [`num_gpus=${numGpus}`]),
    ...(memoryBytes === 0 ? [] : [`memory=${memoryBytes}`]),
    ...(numCpus === 0 ? [] : [`num_cpus=${numCpus}`]),
    ...kinds,
  ];
  return parts.join(' ');
}

/** A job as Ray has it. */
export interface RayJob {
  readonly id: string;
  /** In Ray's own word: PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED. */
  readonly status: string;
  readonly message: string;
  /** In Ray's own word, such as JOB_SUPERVISOR_ACTOR_DIED; empty where it gives none. */
  readonly errorType: string;
  readonly exitCode: Known<number>;
  readonly nodeId: string;
}

/** Ray puts the end of the log into it. */
const maxMessage = 400;

/** The jobs in what Ray lists. */
export function rayJobsIn(answer: unknown): readonly RayJob[] {
  return objectsIn(answer).flatMap((row) => rayJobIn(row) ?? []);
}

/** A job of Ray; undefined where it is none that was submitted. */
export function rayJobIn(answer: unknown): RayJob | undefined {
  const row = objectIn(answer);
  const id = textIn(row['submission_id']);
  const exitCode = row['driver_exit_code'];
  if (id === '') return undefined;
  return {
    id,
    status: textIn(row['status']),
    message: (textIn(row['message']).split('\n')[0] ?? '').slice(0, maxMessage),
    errorType: textIn(row['error_type']),
    exitCode: Number.isSafeInteger(exitCode) ? Number(exitCode) : 'unknown',
    nodeId: textIn(row['driver_node_id']),
  };
}

/** The program itself, or what it was started with, is why it failed. */
const ownFailures =
  /^(JOB_ENTRYPOINT_COMMAND_ERROR|JOB_ENTRYPOINT_COMMAND_START_ERROR|RUNTIME_ENV_SETUP_FAILURE|JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE)$/;

/** As a shell or Ray says that a process was killed. */
const killed: ReadonlySet<Known<number>> = new Set([-9, 137]);

/** Ray gave the job up, and not because of the program: its process, its node or its time to wait. */
export function isLost({ status, errorType, exitCode }: RayJob): boolean {
  if (status !== 'FAILED') return false;
  if (killed.has(exitCode)) return true;
  // Versions that name no kind of error leave the exit code out where no program ended.
  return errorType === '' ? exitCode === 'unknown' : !ownFailures.test(errorType);
}

/** It waited longer than Ray lets jobs wait: that is no fault of the job. */
function isOverdue({ errorType }: RayJob): boolean {
  return errorType === 'JOB_SUPERVISOR_ACTOR_START_TIMEOUT';
}
