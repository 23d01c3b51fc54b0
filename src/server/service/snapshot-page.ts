import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { tooManyAnswers } from '../errors/refusals.js';
import type { SnapshotPage } from '../routes/report-routes.js';

/** Each takes memory of its own: several times that of the file. */
const atOnce = 2;
/** The page of a snapshot of 500 MB has some 40 MB. */
const maxPageBytes = 256 * 1024 * 1024;
/** Ends only what hangs. */
const timeoutMs = 600_000;

/**
 * Makes pages of snapshots in a process of their own: one that is large or odd takes neither the
 * server's time nor its memory.
 */
export function snapshotPages(
  command: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): SnapshotPage {
  let making = 0;
  return async (file, signal) => {
    if (!existsSync(file)) throw gone(file);
    if (making >= atOnce) throw tooManyAnswers();
    making += 1;
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-snapshot-'));
    const page = join(folder, 'page.html');
    try {
      await run([...command, 'snapshot', '--html', page, '--', file], environment, signal);
      if (!existsSync(page) || statSync(page).size > maxPageBytes) throw unreadable(file);
      return Uint8Array.from(readFileSync(page));
    } finally {
      making -= 1;
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

/** Resolves whatever its exit code is: what counts is the page. */
function run(
  [program = '', ...rest]: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn(program, rest, {
      env: { ...environment },
      stdio: 'ignore',
      signal,
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
    });
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
}

function gone(file: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'snapshot-gone',
    fact: `The snapshot ${file} is no longer there.`,
    next: 'Snapshots of older runs are removed; run the job again to get a new one.',
  });
}

function unreadable(file: string): Failure {
  return new Failure({
    kind: 'job',
    code: 'unreadable-snapshot',
    fact: `No page could be made of the snapshot ${file}.`,
    next: `Run "plimsoll snapshot ${file}" on the machine of the server to see why.`,
  });
}
