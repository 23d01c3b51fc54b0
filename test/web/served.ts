import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { type Command, cleanEnvironment, useCommand } from '../cli/command.js';
import { tokenHeaders } from '../cli/served.js';
import { endAllWith } from '../run/running.js';
import { builtPage } from './built-page.js';

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
