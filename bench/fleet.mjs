// How the Fleet view does with 1,000 nodes of 8 GPUs, in real Chromium: from the end of the answer to
// the first painted row, and frames while scrolling, beside a bare page that shows as many plain rows.
//
//   npm run build && node bench/fleet.mjs [--nodes 1000] [--gpus 8] [--seconds 5] [--rounds 3] [--json]
//
// "main thread" is its CPU time, which other work on the machine does not change. Needs Chromium. Ends
// with exit code 1 when the first paint takes more than 2 s or scrolling has fewer than 50 frames a second.
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { fleetOf } from '../dist/fleet/fleet.js';
import { openServer } from '../dist/server/open-server.js';
import { systemClock } from '../dist/time/clock.js';
import { bundled } from './bundled.mjs';
import { chromiumPath } from './chromium-path.mjs';
import { measuring } from './dashboard/in-the-page.mjs';
import { median } from './statistics.mjs';

// What is compared: the Fleet view, and a bare page that fetches the same answer and shows as many rows of text.

/** Runs in the page before anything else: notes when the first row was painted. */
const noteFirstPaint = `(() => {
  const look = () => {
    if (document.querySelector('.node-row') === null) return requestAnimationFrame(look);
    // After the frame that has it: a message comes once that frame is handed over.
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { window.firstPaint = performance.now(); };
    requestAnimationFrame(() => channel.port2.postMessage(0));
  };
  requestAnimationFrame(look);
})()`;

/** Milliseconds from the end of the answer to the first painted row; null until it is painted. */
const paintedAfter = `(() => {
  const answer = performance.getEntriesByType('resource').find(({ name }) => name.endsWith('/fleet'));
  return window.firstPaint === undefined || answer === undefined || answer.responseEnd === 0
    ? null
    : window.firstPaint - answer.responseEnd;
})()`;

const barePage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Bare rows</title>
<style>body { margin: 0; font: 14px sans-serif } .node-row { height: 64px; border-bottom: 1px solid #ddd }</style>
<main></main>
<script>
fetch('fleet').then((answer) => answer.json()).then(({ nodes }) => {
  const main = document.querySelector('main');
  for (const { name, devices } of nodes) {
    const row = document.createElement('div');
    row.className = 'node-row';
    row.textContent = name + ' ' + devices.map((device) =>
      device.id + ' ' + Math.round((device.usedBytes / device.totalBytes) * 100) + ' %').join(' ');
    main.append(row);
  }
});
</script></html>`;

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1000' },
    gpus: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
});
const maxPaintMs = 2000;
const leastFrames = 50;

const { madeAnswers } = await bundled('src/fleet/made-fleet-for-tests.ts');
const { openFakeDaemon } = await bundled('web/testing/fake-daemon.ts');
const answers = madeAnswers(Number(values.nodes), Number(values.gpus));
const began = performance.now();
const fleet = fleetOf({ epochMs: Date.now(), windowSeconds: 3600, answers, history: made() });
const joinMs = performance.now() - began;
const answer = JSON.stringify(fleet);

const refuse = () => Promise.reject(new Error('nobody asks'));
const server = await openServer({
  daemon: openFakeDaemon({ gpus: 1, jobs: 1, seed: 7, nowMs: Date.now() }),
  answers: { estimate: refuse, plan: refuse },
  fleet: () => Promise.resolve(fleet),
  host: '127.0.0.1',
  port: 0,
  webFolder: `${root}dist/web`,
  version: '0.0.0',
  clock: systemClock,
  log: () => undefined,
});
const bare = createServer((request, response) => {
  const isAnswer = request.url === '/fleet';
  response.setHeader('content-type', isAnswer ? 'application/json' : 'text/html');
  response.end(isAnswer ? answer : barePage);
});
await new Promise((resolve) => bare.listen(0, '127.0.0.1', resolve));
const browser = await chromium.launch({
  executablePath: chromiumPath(),
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
});
const addresses = {
  bare: `http://127.0.0.1:${bare.address().port}/`,
  fleet: `${server.url}/#/fleet`,
};
const found = { bare: [], fleet: [] };
for (let round = 0; round < Number(values.rounds); round++) {
  for (const name of ['bare', 'fleet']) found[name].push(await measure(addresses[name]));
}
await browser.close();
bare.close();
await server.close();
report({ bare: summary(found.bare), fleet: summary(found.fleet) });

async function measure(url) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
  try {
    await page.addInitScript(noteFirstPaint);
    await page.goto(url);
    let paintMs = null;
    while (paintMs === null) {
      await page.waitForTimeout(50);
      paintMs = await page.evaluate(paintedAfter);
    }
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
    const busy = async () =>
      (await cdp.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration')
        .value;
    await page.waitForTimeout(500);
    const before = await busy();
    const { frames, ms } = await page.evaluate(measuring(Number(values.seconds), true));
    const busyShare = ((await busy()) - before) / (ms / 1000);
    const sorted = frames.slice(1).toSorted((one, other) => one - other);
    const p99 = sorted[Math.floor(sorted.length * 0.99)];
    return { paintMs, framesPerSecond: (sorted.length / ms) * 1000, p99, busyShare };
  } finally {
    await page.close();
  }
}

function summary(rounds) {
  const middle = (key) => median(rounds.map((one) => one[key]));
  return {
    paintMs: middle('paintMs'),
    framesPerSecond: middle('framesPerSecond'),
    p99: middle('p99'),
    busyShare: middle('busyShare'),
  };
}

function report(results) {
  if (values.json) {
    console.log(JSON.stringify({ ...results, joinMs, answerBytes: answer.length }, undefined, 2));
  } else {
    const { nodes, gpus, rounds } = values;
    console.log(
      `${nodes} nodes with ${gpus} GPUs, an answer of ${(answer.length / 1e6).toFixed(1)} MB, put together in ${joinMs.toFixed(0)} ms; medians of ${rounds} rounds:`,
    );
    console.log('             first paint ms   scrolling frames/s   p99 ms   main thread');
    for (const [name, title] of [
      ['bare', 'plain rows'],
      ['fleet', 'Fleet view'],
    ]) {
      const { paintMs, framesPerSecond, p99, busyShare } = results[name];
      console.log(
        `${title.padEnd(13)}${paintMs.toFixed(0).padStart(14)}${framesPerSecond.toFixed(1).padStart(21)}${p99.toFixed(1).padStart(9)}${`${(busyShare * 100).toFixed(1)} %`.padStart(14)}`,
      );
    }
    const ratio = results.fleet.paintMs / results.bare.paintMs;
    console.log(`first paint, Fleet view against plain rows: ${ratio.toFixed(2)} times as long`);
  }
  const { paintMs, framesPerSecond } = results.fleet;
  if (paintMs > maxPaintMs || framesPerSecond < leastFrames) {
    console.error(
      `Missed: the first paint within ${maxPaintMs} ms and ${leastFrames} frames a second are the aim.`,
    );
    process.exitCode = 1;
  }
}

function made() {
  const moments = Array.from({ length: 120 }, (_, at) => at);
  return {
    epochMs: moments.map((at) => at * 30_000),
    totalBytes: moments.map(() => 100),
    usedBytes: moments.map((at) => 40 + (at % 20)),
    reservedBytes: moments.map(() => 70),
  };
}
