import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cleanEnvironment, useCommand } from '../../../test/cli/command.js';
import { livingWith, until } from '../../../test/run/running.js';
import { discoverDevices } from '../../device/discover.js';
import { openRealDaemon } from './real-daemon-for-tests.js';
import type { Daemon } from './types.js';

/** `PLIMSOLL_TEST_KILLS=100` is the whole proof; a few show in seconds that it still holds. */
const kills = Number(process.env['PLIMSOLL_TEST_KILLS'] ?? 5);
const jobsARound = 3;

const command = useCommand();
let folder: string;
const home = () => join(folder, 'home');
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-daemon-kill-'));
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  mkdirSync(home());
  await build({
    entryPoints: [fileURLToPath(new URL('daemon-child-for-tests.ts', import.meta.url))],
    outfile: join(folder, 'child.mjs'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['@photostructure/sqlite', 'koffi'],
  });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Each job says that it begins, works a little, and says that it is done. */
const script = () =>
  `echo "$1" >> ${join(folder, 'begun')}; sleep 0.3; echo "$1" >> ${join(folder, 'done')}`;

/** Starts a daemon, kills it a while after it said so many lines, and answers what it said. */
function killedDaemon(round: number, lines: number, afterMs: number): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const argv = [home(), command.path(), folder, String(round), String(jobsARound), script()];
    const child = spawn(process.execPath, [join(folder, 'child.mjs'), ...argv], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: cleanEnvironment({ TEST_MARK: folder }),
    });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const before = said.split('\n').length - 1;
      said += text;
      if (before < lines && said.split('\n').length - 1 >= lines) {
        setTimeout(() => child.kill('SIGKILL'), afterMs);
      }
    });
    child.once('error', reject);
    child.once('close', (_, signal) => {
      if (signal !== 'SIGKILL') reject(new Error(`the daemon ended by itself: ${said}`));
      else resolve(said.split('\n').slice(0, -1));
    });
  });
}

async function untilIdle(daemon: Daemon): Promise<void> {
  for (;;) {
    const { waiting, running } = daemon.counts();
    if (waiting + running === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function linesOf(name: string): readonly string[] {
  return readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
}

describe('kill -9 of the daemon under load', () => {
  it(
    'loses no job and runs none twice',
    async () => {
      const acknowledged: string[] = [];
      for (let round = 0; round < kills; round++) {
        // From right after its start to when the first jobs of the round end.
        const lines = 1 + (round % (jobsARound + 1));
        const said = await killedDaemon(round, lines, (round * 97) % 900);
        acknowledged.push(...said.filter((line) => line.startsWith('submitted ')));
      }
      const discovery = await discoverDevices();
      const daemon = await openRealDaemon({
        folder,
        command: command.path(),
        discovery,
        environment: cleanEnvironment({ TEST_MARK: folder }),
        variables: { useGpus: false, maxRunning: 4 },
      });
      await untilIdle(daemon);
      const jobs = daemon.jobs({ limit: 100_000 });
      await daemon.close();
      discovery.close();

      const ids = acknowledged.map((line) => line.split(' ')[2]);
      expect(ids.filter((id) => !jobs.some((job) => job.id === id))).toEqual([]);
      expect(jobs.filter(({ state }) => state !== 'succeeded')).toEqual([]);
      const names = jobs.map((job) => job.command.at(-1) ?? '').toSorted();
      expect(new Set(names).size).toBe(jobs.length);
      expect(linesOf('begun').toSorted()).toEqual(names);
      expect(linesOf('done').toSorted()).toEqual(names);
      expect(jobs.every(({ attempts }) => attempts.length === 1)).toBe(true);
      // Supervisors sum up after their jobs have ended.
      await until(() => (livingWith(`TEST_MARK=${folder}`).length === 0 ? true : undefined));
      expect(acknowledged.length).toBeGreaterThan(kills);
    },
    600_000 + kills * 60_000,
  );
});
