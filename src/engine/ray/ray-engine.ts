import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { isKnown } from '../../units/known.js';
import type { ClusterEngine, ClusterJob } from '../cluster.js';
import { refuseEnded, unknownJob, unreadableJob } from '../job-failures.js';
import { runningMs } from '../job-folder.js';
import { measuredFolder } from '../measured-peaks.js';
import type { RayHttp } from './http.js';
import {
  newRayFolder,
  type RayAttempt,
  type RayJobFolder,
  type RayOrder,
  rayFolders,
} from './job-folder.js';
import { jobView } from './job-view.js';
import { type RayNode, readNodes } from './nodes.js';
import { type RaySettings, rayOffers } from './offers.js';
import { rayOptions } from './options.js';
import { type RayJob, rayJobIn, rayJobsIn } from './ray-jobs.js';
import { RayLogs } from './ray-logs.js';
import { rayRequest } from './request.js';
import { type Standing, standingOf } from './standing.js';
import { submissionOf, submitToRay } from './submission.js';
import { readVersion } from './version.js';

export interface RayEngineOptions {
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

/** What Ray says at one moment. */
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
