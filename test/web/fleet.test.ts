import type { BrowserContextOptions } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';
import { fleetOf } from '../../src/fleet/fleet.js';
import { madeAnswers } from '../../src/fleet/made-fleet-for-tests.js';
import { audit } from './audit.js';
import { axeViolations } from './axe.js';
import { needsChromium, useChromium } from './chromium.js';
import { useFakeServer } from './fake-server.js';
import { openPage, type WatchedPage } from './watched-page.js';

describe('the fleet of 1,000 nodes with 8 GPUs', needsChromium, () => {
  const moments = [0, 1, 2, 3].map((minute) => 1_767_225_600_000 + minute * 60_000);
  const fleet = fleetOf({
    epochMs: Date.now(),
    windowSeconds: 3600,
    answers: madeAnswers(1000, 8),
    history: {
      epochMs: moments,
      totalBytes: [100, 100, 100, 100],
      usedBytes: [20, 30, null, 50],
      reservedBytes: [60, 60, 60, 60],
    },
  });
  const server = useFakeServer({ jobs: 1, fleet });
  const { browser } = useChromium();
  let opened: WatchedPage | undefined;
  afterEach(async () => opened?.close());

  async function open(options: BrowserContextOptions = {}) {
    opened = await openPage(browser(), `${server.url()}/#/fleet`, options);
    await opened.page.locator('.node-row').first().waitFor();
    return opened.page;
  }

  it('is told at a glance: sums, risk, leaks, unused reservations, trainings', async () => {
    const page = await open();
    const text = await page.locator('main').innerText();
    expect(text).toContain('1,000 nodes, 8,000 GPUs (8,000 simulated)');
    expect(text).toMatch(/Reserved and unused\s+\d+\.\d TiB/);
    expect(text).toContain('Jobs that reserved most above their peak');
    expect(text).toMatch(/slurm t\d+ \(pretrain\)/);
    expect(text).toContain('32 ranks on 4 nodes');
    const first = page.locator('.node-row').first();
    expect(await first.innerText()).toMatch(/risk critical[^]*full in 9\.0 s \(estimated\)/);
    const hulls = first.getByRole('img', { name: /GiB used, simulated/ });
    expect(await hulls.count()).toBe(8);
    const row = page.locator('.fleet-table td', { hasText: '3.0 MiB a second' }).first();
    expect(await row.count()).toBe(1);
  });

  it('draws few of its rows, scrolls to the last, and is searched', { tags: 'rest' }, async () => {
    const page = await open();
    await page.evaluate('scrollTo(0, document.body.scrollHeight)');
    const last = () => page.locator('.node-row').last().getAttribute('aria-rowindex');
    await expect.poll(last).toBe('1000');
    expect(await page.locator('.node-row').count()).toBeLessThan(80);
    await page.getByRole('searchbox').fill('n0042');
    await expect.poll(() => page.locator('.node-row').count()).toBe(1);
    await page.getByRole('searchbox').fill('');
    await page.getByRole('radio', { name: 'at risk' }).check({ force: true });
    const listed = () => page.getByRole('table', { name: 'Nodes' }).getAttribute('aria-rowcount');
    await expect.poll(listed).toBe('20');
    await page.getByRole('radio', { name: 'silent' }).check({ force: true });
    await page.getByText('No node is like that.').waitFor();
  });

  it('is whole on a desk and a phone, in light and dark, for axe-core too', {
    tags: 'rest',
  }, async () => {
    const page = await open({ viewport: { width: 1440, height: 900 } });
    expect(await audit(page)).toEqual([]);
    expect(await axeViolations(page)).toEqual([]);
    expect(await audit(page)).toEqual([]);
  });
});

describe('the fleet of a server without a Prometheus', needsChromium, () => {
  const server = useFakeServer({ jobs: 1 });
  const { browser } = useChromium();

  it('says how to have one', async () => {
    const { page, close } = await openPage(browser(), `${server.url()}/#/fleet`);
    await page.getByText('This server knows no Prometheus.').waitFor();
    expect(await page.locator('.empty').innerText()).toContain('plimsoll serve --prometheus');
    await close();
  });
});
