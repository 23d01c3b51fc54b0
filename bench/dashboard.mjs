// How smooth the dashboard stays with 8 GPUs read ten times a second and 10,000 jobs, of which one
// ends, one starts and one comes five times a second: frame times and long tasks in real Chromium,
// beside the same page in the same run when nothing happens.
//
//   npm run build && node bench/dashboard.mjs [--seconds 10] [--gpus 8] [--jobs 10000] [--json]
//
// "main thread" is its CPU time, which other work on the machine does not change; the rest is time on
// the wall. Needs Chromium. Ends with exit code 1 when live takes more than half of the main thread.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { openServer } from '../dist/server/open-server.js';
import { systemClock } from '../dist/time/clock.js';
import { bundled } from './bundled.mjs';
import { chromiumPath } from './chromium-path.mjs';
import { measuring } from './dashboard/in-the-page.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    gpus: { type: 'string', default: '8' },
    jobs: { type: 'string', default: '10000' },
    json: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds);
const everyMs = 100;
const maxBusyShare = 0.5;

const { openFakeDaemon } = await bundled('web/testing/fake-daemon.ts');
const daemon = openFakeDaemon({
  gpus: Number(values.gpus),
  jobs: Number(values.jobs),
  seed: 7,
  nowMs: Date.now(),
});
const refuse = () => Promise.reject(new Error('nobody asks'));
const server = await openServer({
  daemon,
  answers: { estimate: refuse, plan: refuse },
  host: '127.0.0.1',
  port: 0,
  webFolder: `${root}dist/web`,
  version: '0.0.0',
  clock: systemClock,
  log: () => undefined,
});
const browser = await chromium.launch({
  executablePath: chromiumPath(),
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
});
const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
await page.goto(server.url);
await page.getByText('live', { exact: true }).waitFor();
const cdp = await page.context().newCDPSession(page);
await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
// All pages of the list are there.
await page.waitForTimeout(4000);

const results = {
  still: await measure(false),
  live: await ticking(() => measure(false)),
  scrollingStill: await measure(true),
  scrollingLive: await ticking(() => measure(true)),
};
await browser.close();
await server.close();
report(results);

async function ticking(work) {
  const timer = setInterval(() => daemon.tick(Date.now()), everyMs);
  try {
    await page.waitForTimeout(1000);
    return await work();
  } finally {
    clearInterval(timer);
  }
}

async function measure(scroll) {
  await page.evaluate(
    scroll ? "document.querySelector('.rows').scrollIntoView()" : 'scrollTo(0, 0)',
  );
  await page.waitForTimeout(500);
  const busyBefore = await busySeconds();
  const { frames, longMs, longest, ms } = await page.evaluate(measuring(seconds, scroll));
  const busyShare = ((await busySeconds()) - busyBefore) / (ms / 1000);
  const sorted = frames.slice(1).toSorted((one, other) => one - other);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return {
    framesPerSecond: (sorted.length / ms) * 1000,
    p50: at(0.5),
    p99: at(0.99),
    longShare: longMs / ms,
    longest,
    busyShare,
  };
}

/** CPU time of the page's main thread: other work on the machine does not count into it. */
async function busySeconds() {
  const { metrics } = await cdp.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === 'TaskDuration').value;
}

function report(found) {
  if (values.json) {
    console.log(JSON.stringify(found, undefined, 2));
  } else {
    console.log(`${values.gpus} GPUs at 10 Hz, ${values.jobs} jobs, ${seconds} s each:`);
    console.log(
      '                     frames/s    p50 ms    p99 ms  long tasks   longest ms   main thread',
    );
    for (const [name, key] of [
      ['nothing happens', 'still'],
      ['live', 'live'],
      ['scrolling, nothing', 'scrollingStill'],
      ['scrolling, live', 'scrollingLive'],
    ]) {
      const { framesPerSecond, p50, p99, longShare, longest, busyShare } = found[key];
      console.log(
        `${name.padEnd(20)}${framesPerSecond.toFixed(1).padStart(9)}${p50.toFixed(1).padStart(10)}${p99.toFixed(1).padStart(10)}${percent(longShare).padStart(12)}${longest.toFixed(0).padStart(13)}${percent(busyShare).padStart(14)}`,
      );
    }
    const ratio = found.live.p99 / found.still.p99;
    console.log(`p99 of a frame, live against still: ${ratio.toFixed(2)} times as long`);
  }
  const busy = found.live.busyShare;
  if (busy > maxBusyShare) {
    console.error(`Missed: the main thread is busy for ${percent(busy)} of the time.`);
    process.exitCode = 1;
  }
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
