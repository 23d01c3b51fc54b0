import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { endAllWith } from '../run/running.js';
import { type Command, cleanEnvironment, type Ended, type RunOptions } from './command.js';

type AskInit = Omit<RequestInit, 'headers'> & {
  readonly headers?: Readonly<Record<string, string>>;
};

/** A `plimsoll serve` in a process of its own. */
export interface Serving {
  readonly url: string;
  readonly pid: number;
  /** Asks it as the commands of its home do, with its token. */
  readonly ask: (path: string, init?: AskInit) => Promise<Response>;
  /** The document that it prints once it listens. */
  readonly ready: Readonly<Record<string, unknown>>;
  readonly ended: Promise<number | null>;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
}

export interface Home {
  readonly path: string;
  readonly environment: Readonly<Record<string, string>>;
  serve(argv?: readonly string[], environment?: Readonly<Record<string, string>>): Promise<Serving>;
  /** A command beside that server. */
  run(argv: readonly string[], options?: RunOptions): Promise<Ended>;
  /** The same, for the document that it prints. */
  json(argv: readonly string[]): Promise<Readonly<Record<string, unknown>>>;
  /** A job that was submitted, once its program has been traced. */
  estimated(id: unknown, more?: RunOptions): Promise<Readonly<Record<string, unknown>>>;
}

/** A home of one test; what still runs from it is ended, and it is gone afterwards. */
export function useHome(command: Command): Home {
  const path = mkdtempSync(join(tmpdir(), 'plimsoll-home-'));
  const environment = { PLIMSOLL_HOME: path };
  const run = (argv: readonly string[], options: RunOptions = {}) =>
    command.run(argv, { ...options, environment: { ...environment, ...options.environment } });
  /** Servers of this test; one may have been given another home than ours. */
  const servers: ChildProcess[] = [];
  onTestFinished(async () => {
    for (const server of servers) server.kill('SIGKILL');
    await endAllWith(`PLIMSOLL_HOME=${path}`);
    rmSync(path, { recursive: true, force: true });
  });
  const json = async ([name = '', ...rest]: readonly string[], options?: RunOptions) => {
    const { stdout, stderr } = await run([name, '--json', ...rest], options);
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(`no document: ${stdout}${stderr}`);
    }
  };
  return {
    path,
    environment,
    run,
    json: (argv) => json(argv),
    async estimated(id, more) {
      for (;;) {
        const job = await json(['jobs', String(id)], more);
        if (job.need.whyDetails.code !== 'estimating') return job;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    },
    async serve(argv = [], more = {}) {
      const child = spawn(
        process.execPath,
        [command.path(), 'serve', '--port', '0', '--json', ...argv],
        {
          cwd: command.folder(),
          env: cleanEnvironment({ ...environment, ...more }),
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      let stderr = '';
      child.stderr.on('data', (data) => {
        stderr += String(data);
      });
      const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
      servers.push(child);
      const line = await new Promise<string>((resolve, reject) => {
        createInterface({ input: child.stdout }).once('line', resolve);
        void ended.then(() => reject(new Error(`it ended: ${stderr}`)));
      });
      const ready = JSON.parse(line);
      const kill = (signal: NodeJS.Signals) => child.kill(signal);
      const ask = (where: string, init: AskInit = {}) =>
        fetch(ready.url + where, { ...init, headers: { ...init.headers, ...tokenHeaders(path) } });
      return { url: ready.url, pid: ready.pid, ask, ready, ended, stderr: () => stderr, kill };
    },
  };
}

/** What every request must carry: the token that the server made in its home. */
export function tokenHeaders(home: string): Readonly<Record<string, string>> {
  return { authorization: `Bearer ${readFileSync(join(home, 'token'), 'utf8').trim()}` };
}
