// The server that is measured, in a process of its own: `ours` is src/server, `bare` is node:http that
// writes the same bytes to all who listen. Tells its port, and when asked what it has used since.
import { createServer } from 'node:http';
import { encodeEvent } from '../../dist/server/events/event-hub.js';
import { openServer } from '../../dist/server/open-server.js';
import { systemClock } from '../../dist/time/clock.js';
import { bundled } from '../bundled.mjs';
import { epochMs } from './epoch-ms.mjs';

// A daemon that only talks: eight simulated devices that are read at 10 Hz, and jobs that change.

const GiB = 2 ** 30;
/** Kept as a daemon keeps them, for clients that come back. */
const keptEvents = 1000;

/** The fake daemon of the tests, with events as large as those of a busy machine. */
async function talkingDaemon(gpus) {
  const { createFakeDaemon } = await bundled('src/server/fake-daemon-for-tests.ts');
  const { madeDevice, madeJob } = await bundled('src/jobs/daemon/made-for-tests.ts');
  const daemon = createFakeDaemon({ keptEvents });
  let readings = 0;
  let jobs = 0;
  return Object.assign(daemon, {
    publishDevices() {
      readings += 1;
      const devices = Array.from({ length: gpus }, (_, index) =>
        madeDevice(deviceParts(index, readings)),
      );
      daemon.publish({ type: 'devices', epochMs: epochMs(), devices });
    },
    publishJob() {
      jobs += 1;
      // Its time lies where every client finds it. One job stays: memory must not grow.
      daemon.put({ ...madeJob(jobParts(jobs)), id: '1', epochMs: epochMs() }, 'started');
    },
  });
}

/** As large on the wire as a device with four jobs is. */
function deviceParts(index, number) {
  const usedBytes = Math.round((40 + 10 * Math.sin(number / 50 + index)) * GiB);
  return {
    id: `gpu:${index}`,
    name: 'NVIDIA H100 80GB HBM3',
    totalBytes: 80 * GiB,
    usedBytes,
    freeBytes: 80 * GiB - usedBytes,
    processes: Array.from({ length: 4 }, (_, at) => ({
      pid: 1000 + 10 * index + at,
      name: 'python',
      usedBytes: Math.round(usedBytes / 4),
    })),
    loadLineBytes: 72 * GiB,
    reservedBytes: 60 * GiB,
    availableBytes: 12 * GiB,
    reservations: Array.from({ length: 4 }, (_, at) => ({
      jobId: String(4 * index + at),
      name: `train-${at}`,
      bytes: 15 * GiB,
      usedBytes: Math.round(usedBytes / 4),
      isReleasing: false,
    })),
  };
}

function jobParts(number) {
  return {
    id: String(number),
    name: `train-${number}`,
    state: 'running',
    command: ['python', 'train.py', '--batch-size', '{batch_size}', '--seed', String(number)],
    submittedAt: new Date().toISOString(),
    reservation: { devices: [`gpu:${number % 8}`], bytes: 15 * GiB, basis: 'estimated' },
    waiting: null,
  };
}

const [kind, gpus, deviceHz, jobHz] = process.argv.slice(2);
const daemon = await talkingDaemon(Number(gpus));
const port = kind === 'ours' ? await ours() : await bare();
const sent = { devices: 0, jobs: 0 };
every(Number(deviceHz), () => {
  sent.devices += 1;
  daemon.publishDevices();
});
every(Number(jobHz), () => {
  sent.jobs += 1;
  daemon.publishJob();
});

let before;
process.on('message', (word) => {
  if (word === 'begin') before = { cpu: process.cpuUsage(), sent: { ...sent } };
  const { user, system } = process.cpuUsage(before.cpu);
  process.send({
    word,
    cpuSeconds: (user + system) / 1e6,
    rssBytes: process.memoryUsage.rss(),
    events: sent.devices + sent.jobs - before.sent.devices - before.sent.jobs,
  });
});
process.send({ word: 'ready', port, rssBytes: process.memoryUsage.rss() });

/** Without drift: a timer that is late does not make the next one late. */
function every(hz, task) {
  if (hz <= 0) return;
  let next = performance.now();
  const tick = () => {
    task();
    next = Math.max(next + 1000 / hz, performance.now());
    setTimeout(tick, next - performance.now());
  };
  tick();
}

async function ours() {
  const answers = { estimate: unused, plan: unused };
  const place = { host: '127.0.0.1', port: 0, version: '0.0.0', clock: systemClock };
  return (await openServer({ daemon, answers, ...place, log: console.error })).port;
}

function unused() {
  return Promise.reject(new Error('not part of this benchmark'));
}

function bare() {
  const streams = new Set();
  daemon.listen((event) => {
    const bytes = encodeEvent(event);
    for (const stream of streams) stream.write(bytes);
  });
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    streams.add(response);
    response.once('close', () => streams.delete(response));
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', 1024, () => resolve(server.address().port));
  });
}
