// The server that is measured, in a process of its own: `ours` is src/server, `bare` is node:http that
// writes the same bytes to all who listen. Tells its port, and when asked what it has used since.
import { createServer } from 'node:http';
import { encodeEvent } from '../../dist/server/events/event-bytes.js';
import { openServer } from '../../dist/server/open-server.js';
import { systemClock } from '../../dist/time/clock.js';
import { talkingDaemon } from './fake-daemon.mjs';

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
