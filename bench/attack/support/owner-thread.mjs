import { createServer, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';

const pauseMs = 100;
/** How long answers take is a figure of its own; this ends a request that is never answered. */
const giveUpMs = 600_000;
const keptFaults = 5;

const bare = createServer((_, answer) => answer.end('{}'));
await new Promise((resolve) => bare.listen(0, '127.0.0.1', resolve));
const bareUrl = `http://127.0.0.1:${bare.address().port}/`;

const figures = { answers: 0, late: 0, slowestMs: 0, bareSlowestMs: 0, faults: [], unanswered: 0 };
/** The server that is watched; another turn ends the loop of the one before. */
const now = { turn: 0, server: undefined };

parentPort.on('message', (message) => {
  if ('watch' in message) {
    now.server = message.watch;
    now.turn += 1;
    void ask(now.turn);
    return;
  }
  now.turn += 1;
  parentPort.postMessage(message.close ? figures : {}, []);
});

async function ask(own) {
  while (now.turn === own) {
    const { url, token } = now.server;
    const [ours, other] = await Promise.all([timed(`${url}/jobs?limit=20`, token), timed(bareUrl)]);
    if (now.turn !== own) return;
    count(ours, other);
    await wait(pauseMs);
  }
}

function count(ours, other) {
  figures.answers += 1;
  figures.slowestMs = Math.max(figures.slowestMs, ours.ms);
  figures.bareSlowestMs = Math.max(figures.bareSlowestMs, other.ms);
  if (ours.ms > 1000) figures.late += 1;
  if (ours.status === 200) return;
  figures.unanswered += 1;
  if (figures.faults.length < keptFaults) figures.faults.push(String(ours.status));
}

/** On a connection of its own each time, as a command of the owner opens it. */
function timed(url, token) {
  const from = performance.now();
  return new Promise((resolve) => {
    const ended = (status) => resolve({ status, ms: performance.now() - from });
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const sent = request(url, { agent: false, headers, timeout: giveUpMs }, (answer) => {
      answer.resume();
      answer.once('end', () => ended(answer.statusCode));
      answer.once('error', (error) => ended(error.code));
    });
    sent.once('timeout', () => sent.destroy(new Error('timeout')));
    sent.once('error', (error) => ended(error.code ?? error.message));
    sent.end();
  });
}
