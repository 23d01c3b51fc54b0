import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type JobStore, openJobStore } from './job-store.js';

/** `PLIMSOLL_TEST_KILLS=100` is the whole proof; a few show in a second that it still holds. */
const kills = Number(process.env['PLIMSOLL_TEST_KILLS'] ?? 5);

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-kill-'));
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  await build({
    entryPoints: [fileURLToPath(new URL('kill-child-for-tests.ts', import.meta.url))],
    outfile: join(folder, 'child.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['@photostructure/sqlite'],
  });
  mkdirSync(join(folder, 'home'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Starts a child, kills it after so many lines, and answers all the lines it got out. */
function killedAfter(lines: number, path: string, round: number): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(folder, 'child.mjs'), path, String(round)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      if (printed.split('\n').length > lines) child.kill('SIGKILL');
    });
    child.once('error', reject);
    child.once('close', (_, signal) => {
      if (signal !== 'SIGKILL') reject(new Error(`the child ended by itself: ${printed}`));
      else resolve(printed.split('\n').slice(0, -1));
    });
  });
}

function checkAgainst(store: JobStore, acknowledged: readonly string[]): void {
  const ids = (word: string) =>
    acknowledged.filter((line) => line.startsWith(`${word} `)).map((line) => line.split(' ')[1]);
  const all = store.jobs(['waiting', 'running', 'succeeded', 'failed']).map(({ job }) => job);
  const state = new Map(all.map((job) => [job.id, job.state]));
  // Nothing acknowledged is lost, and nothing went back.
  expect(ids('submitted').filter((id) => !state.has(id ?? ''))).toEqual([]);
  expect(ids('started').filter((id) => state.get(id ?? '') === 'waiting')).toEqual([]);
  const over = new Set(['succeeded', 'failed']);
  expect(ids('ended').filter((id) => !over.has(state.get(id ?? '') ?? ''))).toEqual([]);
  // None is doubled, and none was started twice.
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  const events = store.events(0, 100_000);
  const startedIds = events.filter(({ type }) => type === 'started').map(({ jobId }) => jobId);
  expect(new Set(startedIds).size).toBe(startedIds.length);
  // The journal tells the state that each job is in.
  const last = new Map(events.map(({ jobId, data }) => [jobId, data['state']]));
  expect(all.filter(({ id, state: now }) => last.get(id) !== now)).toEqual([]);
  const eventIds = events.map(({ id }) => id);
  expect(eventIds).toEqual([...new Set(eventIds)].toSorted((a, b) => a - b));
}

describe('kill -9 of the owner', () => {
  it(
    'loses nothing that was acknowledged, doubles nothing, starts nothing twice',
    async () => {
      const path = join(folder, 'home/jobs.db');
      const acknowledged: string[] = [];
      for (let round = 0; round < kills; round++) {
        acknowledged.push(...(await killedAfter(1 + ((round * 37) % 90), path, round)));
      }
      const store = await openJobStore(path);
      checkAgainst(store, acknowledged);
      expect(acknowledged.length).toBeGreaterThan(kills);
      store.close();
    },
    600_000 + kills * 60_000,
  );
});

describe('two owners that start at once', () => {
  it('on a fresh home make one store: one has it, the other is told', async () => {
    for (let round = 0; round < 5; round++) {
      const path = join(folder, `home-${round}/jobs.db`);
      const both = [0, 1].map((number) => startOwner(path, number));
      await Promise.race(both.map(({ working }) => working));
      const ends = await Promise.race(both.map(({ ended }) => ended));
      expect(ends.error).toContain('store-in-use');
      for (const { kill } of both) kill();
      const lines = (await Promise.all(both.map(({ ended }) => ended))).map(
        ({ printed }) => printed,
      );
      const store = await openJobStore(path);
      checkAgainst(store, lines.flat());
      store.close();
    }
  });
});

function startOwner(path: string, number: number) {
  const child = spawn(process.execPath, [join(folder, 'child.mjs'), path, String(number)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [printed, error] = ['', ''];
  const working = new Promise<void>((resolve) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      resolve();
    });
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    error += text;
  });
  const ended = new Promise<{ printed: readonly string[]; error: string }>((resolve) => {
    child.once('close', () => resolve({ printed: printed.split('\n').slice(0, -1), error }));
  });
  return { working, ended, kill: () => child.kill('SIGKILL') };
}
