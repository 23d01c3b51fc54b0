import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { findGpu } from '../../src/estimate/cards/gpus.js';
import type { Fleet } from '../../src/fleet/types.js';
import { estimate } from '../../src/report/estimate-for-tests.js';
import { budget, plan } from '../../src/report/plan-for-tests.js';
import { type OpenServer, openServer } from '../../src/server/open-server.js';
import { namesExample } from '../../src/server/routes/examples.js';
import { systemClock } from '../../src/time/clock.js';
import { openFakeDaemon } from '../../web/testing/fake-daemon.js';
import { type Command, cleanEnvironment, useCommand } from '../cli/command.js';
import { tokenHeaders } from '../cli/served.js';
import { endAllWith } from '../run/running.js';
import { builtPage } from './chromium.js';

export interface Served {
  readonly command: Command;
  readonly home: () => string;
  readonly url: () => string;
  /** Opens the dashboard in one browser, once. */
  readonly newLink: () => Promise<string>;
  /** Ends the server; its jobs go on. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** Starts it again on the same port and the same home. */
  start(): Promise<void>;
}

/** The real `plimsoll serve` with the real page, in a home of its own. */
export function useServed(): Served {
  const command = useCommand();
  let home = '';
  let url = '';
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const port = url === '' ? '0' : new URL(url).port;
    const argv = [command.path(), 'serve', '--port', port, '--json'];
    const started = spawn(process.execPath, argv, {
      cwd: command.folder(),
      env: cleanEnvironment({ PLIMSOLL_HOME: home, USE_GPU: 'false' }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    const ready: { url: string } = JSON.parse(await firstLine(started));
    ({ url } = ready);
  }

  async function newLink(): Promise<string> {
    const headers = { 'content-type': 'application/json', ...tokenHeaders(home) };
    const answer = await fetch(`${url}/session/link`, { method: 'POST', headers, body: '{}' });
    const { path }: { path: string } = JSON.parse(await answer.text());
    return url + path;
  }

  async function stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null) return;
    const ended = new Promise((resolve) => ending.once('close', resolve));
    ending.kill(signal);
    await ended;
  }

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'plimsoll-home-'));
    const page = join(dirname(command.path()), '../dist/web');
    cpSync(await builtPage(), page, { recursive: true });
    await start();
  });
  afterAll(async () => {
    if (child !== undefined) await cancelAll(url, tokenHeaders(home));
    await stop();
    await endAllWith(`PLIMSOLL_HOME=${home}`);
    rmSync(home, { recursive: true, force: true });
  });
  return { command, home: () => home, url: () => url, newLink, stop, start };
}

/** What it prints once it listens; what it says where it does not. */
function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let stdout = '';
    let stderr = '';
    child.stderr?.on('data', (data) => {
      stderr += String(data);
    });
    child.stdout?.on('data', (data) => {
      stdout += String(data);
      const end = stdout.indexOf('\n');
      if (end !== -1) resolve(stdout.slice(0, end));
    });
    child.on('error', reject);
    child.on('close', (code) => reject(new Error(`serve ended with ${code}: ${stderr}`)));
  });
}

/** A test that failed half-way must leave nothing running. */
async function cancelAll(url: string, headers: Readonly<Record<string, string>>): Promise<void> {
  const read = async (): Promise<{ jobs: readonly { id: string }[] }> =>
    JSON.parse(await (await fetch(`${url}/jobs?state=waiting,running`, { headers })).text());
  for (let tries = 0; tries < 100; tries++) {
    const { jobs } = await read();
    if (jobs.length === 0) return;
    if (tries % 30 === 0) {
      await Promise.all(
        jobs.map(({ id }) => fetch(`${url}/jobs/${id}`, { method: 'DELETE', headers })),
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Ten readings a second, as a real machine has them. */
const everyMs = 100;

/** A trace that does not end. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')));
  });
}

/** The real server and page over a daemon with nothing behind it: 8 GPUs and many jobs. */
export function useFakeServer(options: {
  readonly jobs: number;
  readonly token?: string;
  /** What its Prometheus knows; left out, it has none. */
  readonly fleet?: Fleet;
}): {
  readonly url: () => string;
} {
  const { fleet } = options;
  let server: OpenServer | undefined;
  let timer: ReturnType<typeof setInterval> | undefined;
  beforeAll(async () => {
    const daemon = openFakeDaemon({
      gpus: 8,
      jobs: options.jobs,
      seed: 7,
      nowMs: Date.now(),
    });
    timer = setInterval(() => daemon.tick(Date.now()), everyMs);
    server = await openServer({
      daemon,
      answers: {
        estimate: () => Promise.resolve({ ...estimate, gpu: findGpu('h200') }),
        plan: ({ model, method }, signal) =>
          model === 'slow' && method !== 'formula'
            ? untilAborted(signal)
            : Promise.resolve({ ...plan, budget }),
        estimateAssumptions: () => Promise.resolve({ seq: 2048, precision: 'bf16' }),
        planAssumptions: () => Promise.resolve({ seq: 1024 }),
        names: () => Promise.resolve(namesExample),
      },
      host: '127.0.0.1',
      port: 0,
      token: options.token,
      fleet: fleet && (() => Promise.resolve(fleet)),
      webFolder: await builtPage(),
      version: '0.0.0',
      clock: systemClock,
      log: () => undefined,
    });
  });
  afterAll(async () => {
    clearInterval(timer);
    await server?.close();
  });
  return { url: () => server?.url ?? '' };
}
