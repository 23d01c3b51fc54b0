// All jobs of the mix through one server, and what became of them.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

// A "plimsoll serve" of its own: started, asked, stopped.

/** Loading Node and finding the devices takes a second; a busy machine ten of them. */
const startSeconds = 60;

async function startServer({ command, python, home, environment }) {
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

const GiB = 2 ** 30;
const program = fileURLToPath(new URL('mix_job.py', import.meta.url));
/** Estimates that are made at the same time. */
const atOnce = 4;
const over = new Set(['succeeded', 'failed', 'cancelled', 'refused', 'expired']);

/**
 * Submits all jobs at once and waits for the last to end. `steps` has the steps of each job by its
 * name; a job that is not in it trains for `seconds`.
 */
export async function runPhase({ name, jobs, command, python, folder, environment, ...options }) {
  const { steps = new Map(), seconds, limitSeconds } = options;
  const home = join(folder, name.replaceAll(' ', '-'));
  mkdirSync(home, { recursive: true });
  const server = await startServer({ command, python, home, environment });
  const watched = { maxAtOnce: 0, maxUsedBytes: 0, maxReservedBytes: 0, loadLineBytes: 0 };
  const until = Date.now() + limitSeconds * 1000;
  try {
    const begun = Date.now();
    // Jobs run while others are still being estimated, so looking on begins now.
    const looking = setInterval(() => void look().catch(() => {}), 500);
    let list;
    let known;
    try {
      list = await submitAll();
      known = Date.now();
      while (!(await allOver(list))) {
        if (Date.now() > until) await cancelAll();
        await sleep(500);
      }
    } catch (error) {
      await cancelAll();
      throw error;
    } finally {
      clearInterval(looking);
    }
    const views = await Promise.all(list.map(({ id }) => server.ask('GET', `/jobs/${id}`)));
    const results = await Promise.all(views.map(resultOf));
    const ends = views.flatMap(({ endedAt }) => (endedAt ? [Date.parse(endedAt)] : []));
    return {
      name,
      seconds: (Math.max(begun, ...ends) - begun) / 1000,
      estimatingSeconds: (known - begun) / 1000,
      ...watched,
      jobs: results,
    };
  } finally {
    await server.stop();
  }

  /** In their order; a few at a time, as each may trace a model on all cores. */
  async function submitAll() {
    const sent = [];
    const left = jobs.entries();
    const sender = async () => {
      for (const [index, job] of left) sent[index] = await submit(job);
    };
    await Promise.all(Array.from({ length: atOnce }, sender));
    return sent;
  }

  function submit(job) {
    const amount = steps.has(job.name)
      ? ['--steps', String(steps.get(job.name))]
      : ['--seconds', String(seconds)];
    const output = outputOf(job.name);
    return server.ask('POST', '/jobs', {
      name: job.name,
      // Sent again it is the same job.
      submission: job.name,
      command: [
        python,
        program,
        JSON.stringify(job),
        ...amount,
        '--output',
        output,
        '--device',
        '{torch_device}',
      ],
      cwd: process.cwd(),
      ...(job.statedGiB ? { memoryBytes: job.statedGiB * GiB } : { workload: workloadOf(job) }),
    });
  }

  async function allOver(list) {
    const views = await Promise.all(list.map(({ id }) => server.ask('GET', `/jobs/${id}`)));
    return views.every(({ state }) => over.has(state));
  }

  async function look() {
    const { devices } = await server.ask('GET', '/devices');
    for (const { takesJobs, usedBytes, reservedBytes, loadLineBytes, reservations } of devices) {
      if (!takesJobs) continue;
      watched.loadLineBytes = Math.max(watched.loadLineBytes, loadLineBytes);
      watched.maxReservedBytes = Math.max(watched.maxReservedBytes, reservedBytes);
      if (Number.isFinite(usedBytes)) {
        watched.maxUsedBytes = Math.max(watched.maxUsedBytes, usedBytes);
      }
      const running = reservations.filter(({ isReleasing }) => !isReleasing).length;
      watched.maxAtOnce = Math.max(watched.maxAtOnce, running);
    }
  }

  async function cancelAll() {
    process.stderr.write(`${name}: what still waits or runs is cancelled.\n`);
    const { jobs: open } = await server.ask('GET', '/jobs?state=waiting,running');
    await Promise.allSettled(open.map(({ id }) => server.ask('DELETE', `/jobs/${id}`)));
    await sleep(5000);
  }

  async function resultOf(view) {
    const { id, name: job, state, reason, reservation, need, attempts, startedAt, endedAt } = view;
    const peaks = attempts.flatMap(({ peakBytes }) =>
      Number.isFinite(peakBytes) ? [peakBytes] : [],
    );
    const result = {
      job,
      state,
      reason,
      reservedBytes: reservation?.bytes ?? need.bytes,
      basis: need.basis,
      why: need.why,
      peakBytes: peaks.length > 0 ? Math.max(...peaks) : null,
      attempts: attempts.length,
      outOfMemory: attempts.filter(({ outOfMemory }) => outOfMemory !== null).length,
      runSeconds:
        startedAt && endedAt ? (Date.parse(endedAt) - Date.parse(startedAt)) / 1000 : null,
    };
    if (state === 'succeeded') return { ...result, trained: readJson(outputOf(job)) };
    const log = await server.ask('GET', `/jobs/${id}/log`).catch((error) => error.message);
    return { ...result, log: log.slice(-2000) };
  }

  function outputOf(job) {
    return join(home, `${job}.done.json`);
  }
}

/** How the project is told what the job will train; it finds out the rest. */
function workloadOf({ source, model, path, batch, seq, precision, optimizer, checkpointing }) {
  const how = { mode: 'train', precision, optimizer, ...(checkpointing && { checkpointing }) };
  if (source === 'script') {
    return { ...how, script: path, args: { batch: String(batch), seq: String(seq) } };
  }
  return { ...how, model: source === 'torchvision' ? `torchvision:${model}` : path, batch, seq };
}

function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}
