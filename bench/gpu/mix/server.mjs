// A "plimsoll serve" of its own: started, asked, stopped.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Loading Node and finding the devices takes a second; a busy machine ten of them. */
const startSeconds = 60;

export async function startServer({ command, python, home, environment }) {
  const port = await freePort();
  const [program, ...before] = command;
  const place = ['--host', '127.0.0.1', '--port', String(port)];
  const options = ['serve', ...place, '--python', python];
  const child = spawn(program, [...before, ...options], {
    env: { ...process.env, ...environment, PLIMSOLL_HOME: home },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  let running = true;
  const ended = new Promise((resolve) => {
    child.once('close', () => {
      running = false;
      resolve();
    });
  });
  const url = `http://127.0.0.1:${port}`;
  const server = { ask: (...request) => ask(url, tokenOf(home), ...request), stop };
  const until = Date.now() + startSeconds * 1000;
  while (!(await answers(url))) {
    if (!running || Date.now() > until) {
      await stop();
      throw new Error('plimsoll serve does not answer; see what it printed above.');
    }
    await sleep(200);
  }
  return server;

  async function stop() {
    child.kill('SIGTERM');
    const patience = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(patience);
  }
}

/** The server made it when it started. */
function tokenOf(home) {
  return readFileSync(join(home, 'token'), 'utf8').trim();
}

/** The body of the answer; what is no success is an error with the server's own words. */
async function ask(url, token, method, path, body) {
  const answer = await fetchPatiently(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 1000)}`);
  return answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text;
}

/** A connection may break while a model is traced; all that is asked here may be asked again. */
async function fetchPatiently(url, options, tries = 3) {
  for (let left = tries - 1; ; left--) {
    try {
      return await fetch(url, options);
    } catch (error) {
      if (left === 0) throw error;
      await sleep(500);
    }
  }
}

async function answers(url) {
  try {
    return (await fetch(`${url}/healthz`)).ok;
  } catch {
    return false;
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
