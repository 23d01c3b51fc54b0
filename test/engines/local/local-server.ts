import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { ClusterEngine, ClusterJob, ClusterState } from '../../../src/engine/cluster.js';
import { Failure } from '../../../src/failure.js';
import type { JobView } from '../../../src/jobs/daemon/types.js';
import { isKnown } from '../../../src/units/known.js';
import { tokenHeaders } from '../../cli/served.js';
import { root } from '../../support/project-files.js';
import { killUntilNone, processesWith } from '../processes.js';

/** A server of ours with one simulated GPU, seen as the engines of clusters are. */
export interface LocalServer {
  readonly engine: ClusterEngine;
  readonly home: string;
  close(): void;
}

export async function serveLocal(): Promise<LocalServer> {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-local-'));
  const words = ['serve', '--port', '0', '--json', '--simulate', 'steady'];
  const server = spawn(process.execPath, [join(root, 'bin/plimsoll.js'), ...words], {
    env: { ...process.env, PLIMSOLL_HOME: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: server.stdout }).once('line', resolve);
    server.once('exit', () => reject(new Error('the server ended')));
  });
  const { url } = JSON.parse(line);

  async function ask(path: string, method = 'GET', body?: object): Promise<Response> {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers: { ...tokenHeaders(home), 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (answer.ok) return answer;
    const { error } = JSON.parse(await answer.text());
    throw new Failure({ kind: 'input', ...error });
  }
  const json = async (path: string) => JSON.parse(await (await ask(path)).text());
  /** A refused job is kept as well, so that its owner sees why; it was never taken. */
  const taken = async (): Promise<readonly JobView[]> =>
    (await json('/jobs')).jobs.filter(({ state }: JobView) => state !== 'refused');

  const engine: ClusterEngine = {
    name: 'local',
    placesJobs: false,
    enforces: { gpu: 'the SDK limits PyTorch', host: 'a cgroup, or the address space' },
    async devices() {
      const { devices } = await json('/devices');
      const gpus = devices.filter(({ id }: { id: string }) => id.startsWith('gpu:'));
      return gpus.map(({ id, name, totalBytes }: Record<string, string>) => ({
        name: `${hostname()}/${id}`,
        type: name,
        capacityBytes: totalBytes,
      }));
    },
    preview: () => Promise.reject(new Error('it has none')),
    async submit({ name, command, cwd, gpus, needBytes }) {
      const memory = isKnown(needBytes) ? { memoryBytes: needBytes } : {};
      const answer = await ask('/jobs', 'POST', { name, command, cwd, gpus, ...memory });
      const job: JobView = JSON.parse(await answer.text());
      if (job.state === 'refused') {
        const fact = job.reason ?? '';
        throw new Failure({ kind: 'input', code: 'does-not-fit', fact, next: '' });
      }
      return viewOf(job);
    },
    jobs: async (most) => (await taken()).slice(0, most).map(viewOf),
    job: async (id) => viewOf(await json(`/jobs/${id}`)),
    async log(id, from) {
      return Buffer.from(await (await ask(`/jobs/${id}/log?from=${from}`)).arrayBuffer());
    },
    async cancel(id) {
      await ask(`/jobs/${id}`, 'DELETE');
      return engine.job(id);
    },
    async use() {
      const running = (await taken()).filter(({ state }) => state === 'running');
      return running.map(({ id, reservation }) => ({
        jobId: id,
        device: `${hostname()}/${reservation?.devices[0]}`,
        reservedBytes: reservation?.bytes ?? 'unknown',
      }));
    },
  };
  return {
    engine,
    home,
    close() {
      server.removeAllListeners('exit');
      killUntilNone(() => processesWith(`PLIMSOLL_HOME=${home}`));
      rmSync(home, { recursive: true, force: true });
    },
  };
}

const states: Readonly<Record<JobView['state'], ClusterState>> = {
  waiting: 'waiting',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
  refused: 'failed',
  expired: 'failed',
};

function viewOf(job: JobView): ClusterJob {
  const { id, name, command, gpus, reservation, submittedAt } = job;
  return {
    engine: 'local',
    id,
    name,
    command,
    state: states[job.state],
    why: job.reason ?? '',
    gpus,
    needBytes: reservation?.bytes ?? 'unknown',
    basis: reservation?.basis ?? 'unknown',
    nodes: hostname(),
    submittedAt,
    attempts: (job.attempts ?? []).map(({ number, peakBytes, outOfMemory, exitCode }) => ({
      number,
      clusterId: id,
      request: '',
      reservedBytes: reservation?.bytes ?? 'unknown',
      peakBytes,
      outOfMemory: outOfMemory !== null,
      exitCode,
    })),
    notes: [],
    tasks: null,
  };
}
