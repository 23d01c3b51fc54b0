import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import type { RayHttp } from './http.js';
import { newRayFolder, type RayAttempt, type RayJobFolder } from './job-folder.js';
import { rayEngine } from './ray-engine.js';

const session = 'session-1';
const startMs = Date.UTC(2026, 0, 1);
let home = '';
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-ray-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

function attemptOf(number: number): RayAttempt {
  const request = {
    numGpus: 0.1 * number,
    memoryBytes: 0,
    numCpus: 0,
    resources: {},
    labels: {},
    limitBytes: 64 * number * MiB,
    contextBytes: 0,
    why: 'a share',
    notes: [],
  };
  return { schema: 1, number, restart: 0, session, request };
}

/** A job whose first attempt ran out of memory. */
function jobWithOneAttempt(): RayJobFolder {
  const folder = newRayFolder(home, startMs);
  folder.create({
    schema: 1,
    key: folder.key,
    name: 'train',
    command: ['train'],
    cwd: '/',
    needBytes: 64 * MiB,
    estimatedBytes: 'unknown',
    batch: 'unknown',
    basis: 'stated',
    gpus: 1,
    maxAttempts: 3,
    workloadKey: 'key',
    submittedAt: new Date(startMs).toISOString(),
    plimsoll: ['plimsoll'],
    measured: home,
    addresses: [],
    environment: {},
    options: { numCpus: 'default', resources: {}, labels: {}, metadata: {} },
    offers: [],
  });
  folder.claimAttempt('all', attemptOf(1));
  return folder;
}

/** Writes the node's request for more memory. */
function submitNext(folder: RayJobFolder): void {
  folder.claimAttempt('all', attemptOf(2));
  folder.writeEnd('all', 1, {
    schema: 1,
    outcome: 'failed',
    exitCode: 137,
    outOfMemory: true,
    peakBytes: 64 * MiB,
    node: 'n1',
    endedAt: new Date(startMs).toISOString(),
    rayState: '',
  });
}

/** A head that knows these jobs; `listed` is called once it has answered with its list. */
function head(statuses: Map<string, string>, listed: () => void): RayHttp {
  const row = (id: string) => ({ submission_id: id, status: statuses.get(id) });
  return {
    address: 'http://127.0.0.1:1',
    get(path) {
      if (path === '/api/version')
        return Promise.resolve({ ray_version: '2.50.0', session_name: session });
      if (path === '/api/jobs/') {
        const rows = [...statuses.keys()].map(row);
        listed();
        return Promise.resolve(rows);
      }
      const id = path.slice('/api/jobs/'.length);
      return Promise.resolve(statuses.has(id) ? row(id) : undefined);
    },
    post: () => Promise.reject(new Error('nothing is submitted by a look')),
  };
}

function engineWith(http: RayHttp) {
  return rayEngine({ home, http, plimsoll: [], environment: {}, settings: {}, gpus: [] });
}

describe('jobs of Ray', () => {
  it('are not taken for lost where a node submits the next attempt during the look', async () => {
    const folder = jobWithOneAttempt();
    const statuses = new Map([[folder.id, 'RUNNING']]);
    const http = head(statuses, () => {
      statuses.set(`${folder.id}-2`, 'PENDING');
      submitNext(folder);
    });
    const [job] = await engineWith(http).jobs(10);
    expect(job?.attempts.map(({ outOfMemory }) => outOfMemory)).toEqual([true, false]);
    expect(job?.state).toBe('waiting');
  });

  it('are unknown where Ray forgot them and they left no result', async () => {
    jobWithOneAttempt();
    const [job] = await engineWith(head(new Map(), () => undefined)).jobs(10);
    expect(job).toMatchObject({ state: 'unknown', why: expect.stringContaining('no longer') });
  });
});
