// How long the page of a large snapshot holds up the browser: the longest task of its main thread
// while it opens and while one zooms, chooses an event and looks at single allocations, beside a bare
// page in the same Chromium. The snapshot is a recorded one over and over.
//
//   npm run build && node bench/snapshot-page.mjs [--megabytes 500] [--json]
//
// Times are on the wall, so other work on the machine makes them longer. Needs Chromium and Python. Ends
// with exit code 1 when a task takes 200 ms or more.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { chromiumPath } from './chromium-path.mjs';
import { unpackedSnapshot } from './snapshot/unpacked.mjs';

const maxMs = 200;
const here = fileURLToPath(new URL('snapshot/', import.meta.url));
const command = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));
const { values } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '500' },
    json: { type: 'boolean', default: false },
  },
});

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-bench-page-'));
try {
  const files = makePages();
  const browser = await chromium.launch({
    executablePath: chromiumPath(),
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
  const bare = await measure(browser, files.bare, false);
  const page = await measure(browser, files.page, true);
  await browser.close();
  const result = { ...files.sizes, bare, page };
  if (values.json) console.log(JSON.stringify(result, undefined, 2));
  else print(result);
  process.exitCode = Math.max(page.openingMs, page.usingMs) >= maxMs ? 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function makePages() {
  const [small, large] = ['small.pickle', 'large.pickle'].map((name) => join(folder, name));
  const [page, bare] = ['page.html', 'bare.html'].map((name) => join(folder, name));
  writeFileSync(small, unpackedSnapshot());
  execFileSync('python3', [
    `${here}repeat.py`,
    small,
    large,
    String(Number(values.megabytes) * 1e6),
  ]);
  const began = performance.now();
  try {
    execFileSync(process.execPath, [command, 'snapshot', large, '--html', page, '--json'], {
      maxBuffer: 2 ** 28,
    });
  } catch (error) {
    // 1: it has a leak.
    if (error.status !== 1) throw error;
  }
  const madeSeconds = (performance.now() - began) / 1000;
  writeFileSync(bare, '<!doctype html><title>bare</title><p>Nothing.</p>');
  const sizes = {
    snapshotBytes: statSync(large).size,
    pageBytes: statSync(page).size,
    madeSeconds,
  };
  rmSync(large);
  return { page, bare, sizes };
}

/** The longest task while a page opens, and while it is used: wall clock, and its processor time. */
async function measure(browser, file, isSnapshot) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.addInitScript(`
    window.longTasks = [];
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longTasks.push(duration);
    }).observe({ type: 'longtask', buffered: true });
  `);
  const longest = () =>
    page.evaluate('const found = Math.max(0, ...longTasks); longTasks.length = 0; found');
  const began = performance.now();
  await page.goto(pathToFileURL(file).href);
  if (isSnapshot) {
    await page.locator('#loading').waitFor({ state: 'detached', timeout: 600_000 });
    await page.locator('#state-words', { hasText: 'reserved' }).waitFor({ timeout: 600_000 });
  }
  const openSeconds = (performance.now() - began) / 1000;
  await page.waitForTimeout(1500);
  const openingMs = await longest();
  if (isSnapshot) await use(page);
  else await page.waitForTimeout(1000);
  const usingMs = await longest();
  await page.close();
  return { openSeconds, openingMs, usingMs };
}

async function use(page) {
  await page.click('[data-mode=allocations]');
  await page.focus('#time');
  for (const key of ['+', '+', ']', ']', 'ArrowRight', 't', '+', '+', '0', 'm', 'p']) {
    await page.keyboard.press(key);
    await page.waitForTimeout(400);
  }
  for (const event of ['peak', 'previous', 'next', 'first', 'last']) {
    await page.click(`[data-event=${event}]`);
    await page.waitForTimeout(400);
  }
  await page.click('[data-flame=peak]');
  await page.click('#flame-fold');
  await page.waitForTimeout(1500);
}

function print({ snapshotBytes, pageBytes, madeSeconds, bare, page }) {
  console.log(
    `${megabytes(snapshotBytes)} of snapshot; its page has ${megabytes(pageBytes)}, made in ${madeSeconds.toFixed(0)} s`,
  );
  console.log('               open s   longest task ms   longest task in use ms');
  for (const [name, one] of [
    ['bare page', bare],
    ['snapshot', page],
  ]) {
    console.log(
      `${name.padEnd(12)}${one.openSeconds.toFixed(1).padStart(9)}${one.openingMs.toFixed(0).padStart(18)}${one.usingMs.toFixed(0).padStart(25)}`,
    );
  }
  const worst = Math.max(page.openingMs, page.usingMs);
  console.log(
    `Longest: ${worst.toFixed(0)} ms (below ${maxMs}; tasks below 50 ms are not counted)`,
  );
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
