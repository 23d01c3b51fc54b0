// The server of `npm start`: a `plimsoll serve` with a home of its own.
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { root } from '../steps.mjs';

export const plimsoll = `${root}bin/plimsoll.js`;

/** Where people expect it; another one where that is taken. */
const ports = ['8000', '0'];

/** What a person set for servers and queues of their own is not meant for this one. */
const otherVariables = new Set([
  'USE_GPU',
  'GPU_DEVICE',
  'MAX_CONCURRENT_JOBS',
  'JOB_TIMEOUT',
  'SAFETY_MARGIN_MB',
]);

export function environmentFor(home) {
  const kept = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('PLIMSOLL_') && !otherVariables.has(name),
  );
  return { ...Object.fromEntries(kept), PLIMSOLL_HOME: home };
}

/** The address of a server that still has this home, from an `npm start` that goes on elsewhere. */
export async function serverOf(home) {
  try {
    const { url } = JSON.parse(readFileSync(`${home}/server.json`, 'utf8'));
    return (await fetch(`${url}/healthz`)).ok ? url : undefined;
  } catch {
    return undefined;
  }
}

/** Starts it, in a session of its own: Ctrl-C is for us, who close it in order. */
export async function startServer(home, logFile) {
  for (const port of ports) {
    const started = await listenOn(port, home, logFile);
    if (started !== undefined) return started;
  }
  throw new Error(`The server did not start:\n${readFileSync(logFile, 'utf8')}`);
}

async function listenOn(port, home, logFile) {
  const log = openSync(logFile, 'w');
  const child = spawn(process.execPath, [plimsoll, 'serve', '--port', port, '--json'], {
    cwd: root,
    env: environmentFor(home),
    stdio: ['ignore', 'pipe', log],
    detached: true,
  });
  closeSync(log);
  const ended = new Promise((resolve) => child.once('close', resolve));
  const line = await Promise.race([
    new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve)),
    ended.then(() => undefined),
  ]);
  if (line === undefined) return undefined;
  const { url, link } = JSON.parse(line);
  return {
    url,
    link,
    ended,
    /** Jobs would go on without it: whoever started some ends them first. */
    close() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}
