// How long a server takes to answer GET /jobs while it makes a large estimate by formula, beside the
// same server with nothing else to do, and beside another process that keeps a core busy: what an
// estimate costs above that is due to the server.
//
//   npm run build && node bench/answers-beside-estimates.mjs [--seconds 10] [--layers 1600] [--json]
//
// Ends with exit code 1 when an estimate fails.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const command = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));
/** Code gets compiled; a server that has run for a while is measured. */
const warmUpRequests = 200;
const pauseMs = 5;
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    layers: { type: 'string', default: '1600' },
    json: { type: 'boolean', default: false },
  },
});

const home = mkdtempSync(join(tmpdir(), 'plimsoll-answers-'));
const model = join(home, 'config.json');
writeFileSync(
  model,
  JSON.stringify({ model_type: 'llama', num_hidden_layers: Number(values.layers) }),
);
const server = spawn(
  process.execPath,
  [command, 'serve', '--port', '0', '--no-token', '--simulate', 'steady', '--json'],
  { env: { ...process.env, PLIMSOLL_HOME: home }, stdio: ['ignore', 'pipe', 'inherit'] },
);
try {
  const [line] = await once(createInterface({ input: server.stdout }), 'line');
  const { url } = JSON.parse(line);
  for (let number = 0; number < warmUpRequests; number += 1) await answered(url);
  const alone = await measure(url);
  const busy = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  const besideBusy = await measure(url);
  busy.kill('SIGKILL');
  const estimates = keepEstimating(url);
  const besideEstimates = await measure(url);
  report({ alone, besideBusy, besideEstimates }, await estimates.stop());
} finally {
  server.kill();
  await once(server, 'exit');
  rmSync(home, { recursive: true });
}

/** Milliseconds until the whole answer is here. */
async function answered(url) {
  const from = performance.now();
  const answer = await fetch(`${url}/jobs`);
  if (!answer.ok) throw new Error(`GET /jobs was answered with ${answer.status}`);
  await answer.text();
  return performance.now() - from;
}

async function measure(url) {
  const times = [];
  const end = performance.now() + Number(values.seconds) * 1000;
  while (performance.now() < end) {
    times.push(await answered(url));
    await wait(pauseMs);
  }
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { answers: times.length, p50Ms: at(0.5), p99Ms: at(0.99), worstMs: sorted.at(-1) };
}

/** One estimate after another, until stopped. The last is given up by closing its connection. */
function keepEstimating(url) {
  const gone = new AbortController();
  const made = { whole: 0, failed: 0 };
  const work = (async () => {
    while (!gone.signal.aborted) {
      try {
        const answer = await fetch(`${url}/estimate`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          // Another batch each time: an estimate that is kept costs nothing.
          body: JSON.stringify({ model, method: 'formula', batch: made.whole + 1, seq: 512 }),
          signal: gone.signal,
        });
        await answer.text();
        if (!answer.ok) throw new Error(`POST /estimate was answered with ${answer.status}`);
        made.whole += 1;
      } catch (error) {
        if (gone.signal.aborted) return;
        made.failed += 1;
        console.error(error.message);
        return;
      }
    }
  })();
  return {
    stop: async () => {
      gone.abort();
      await work;
      return made;
    },
  };
}

function report(measured, estimates) {
  const { alone, besideBusy, besideEstimates } = measured;
  const ratio = {
    p50: besideEstimates.p50Ms / besideBusy.p50Ms,
    p99: besideEstimates.p99Ms / besideBusy.p99Ms,
  };
  const { seconds, layers } = values;
  if (values.json) {
    console.log(JSON.stringify({ seconds, layers, ...measured, ratio, estimates }, undefined, 2));
  } else {
    console.log(
      [
        `GET /jobs for ${seconds} s each, without and with estimates by formula of ${layers} layers`,
        `${''.padEnd(24)}${['answers', 'p50 ms', 'p99 ms', 'worst ms'].map((name) => name.padStart(11)).join('')}`,
        row('nothing else', alone),
        row('beside a busy process', besideBusy),
        row('beside estimates', besideEstimates),
        `Beside estimates an answer takes ${ratio.p50.toFixed(2)} x as long as beside a busy process (p50), ${ratio.p99.toFixed(2)} x (p99).`,
        `Estimates made meanwhile: ${estimates.whole}, and one was under way at the end.`,
      ].join('\n'),
    );
  }
  process.exitCode = estimates.failed > 0 ? 1 : 0;
}

function row(name, { answers, p50Ms, p99Ms, worstMs }) {
  const cells = [String(answers), ...[p50Ms, p99Ms, worstMs].map((time) => time.toFixed(1))];
  return name.padEnd(24) + cells.map((cell) => cell.padStart(11)).join('');
}
