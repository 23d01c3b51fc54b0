import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { snapshotScripts } from 'plimsoll:snapshot-page';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderSnapshotHtml } from '../../src/report/snapshot-html.js';
import { analyseSnapshot } from '../../src/snapshot/analyse.js';
import { recordedPath } from '../../src/snapshot/made-snapshot-for-tests.js';
import { readSnapshot } from '../../src/snapshot/read-snapshot.js';
import { audit } from './audit.js';
import { axeViolations } from './axe.js';
import { needsChromium, useChromium } from './chromium.js';
import { openPage } from './watched-page.js';

describe('the page of a snapshot', needsChromium, () => {
  const { browser } = useChromium();
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-snapshot-page-'));
  const file = join(folder, 'leak.html');
  beforeAll(async () => {
    const analysis = analyseSnapshot(await readSnapshot(recordedPath('leak')), { whatIf: [] });
    const named = { name: 'leak.pickle', version: '1.2.3', scripts: snapshotScripts };
    writeFileSync(file, renderSnapshotHtml(analysis, named));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** As a person opens it: from a file. */
  async function open(viewport: { readonly width: number; readonly height: number }) {
    const watched = await openPage(browser(), pathToFileURL(file).href, { viewport });
    await watched.page.locator('#loading').waitFor({ state: 'detached' });
    await expect.poll(() => watched.page.textContent('#state-words')).toMatch(/At the snapshot/);
    await expect.poll(() => watched.page.textContent('#axis-words')).toMatch(/linear/);
    return watched;
  }
  const text = (page: Page, id: string) => page.textContent(`#${id}`);

  it('shows each allocation, its stack in view, and the allocator at that event', async () => {
    const { page, close } = await open({ width: 1280, height: 900 });
    expect(await text(page, 'stack-list')).toContain('GiB');
    const units = ['B', 'KiB', 'MiB', 'GiB'];
    const held = (await page.locator('#stack-list b').allTextContents()).map((words) => {
      const [figure, unit = ''] = words.split(/\s/);
      return Number(figure) * 1024 ** units.indexOf(unit);
    });
    expect(held.length).toBeGreaterThan(5);
    expect(held).toEqual(held.toSorted((one, other) => other - one));
    await page.click('[data-mode=allocations]');
    await expect.poll(() => text(page, 'band-words')).toMatch(/drawn together/);
    const box = page.locator('#time');
    const { width = 0, height = 0 } = (await box.boundingBox()) ?? {};
    // Near the bottom, where weights lie for the whole of the recording.
    await box.click({ position: { x: width * 0.7, y: height - 27 } });
    const stack = page.locator('#frames');
    await stack.waitFor();
    await expect.poll(() => stack.textContent()).toMatch(/address 0x.*snapshots\.py/);
    expect(await stack.textContent()).toMatch(/\d+ calls in torch/);
    const place = (await stack.boundingBox()) ?? { y: -1, height: 0 };
    expect(place.y).toBeGreaterThanOrEqual(0);
    expect(place.y + place.height).toBeLessThanOrEqual(900);
    await expect.poll(() => text(page, 'state-words')).toMatch(/After event [\d,]+ of/);
    expect(await text(page, 'near')).toMatch(/allocated|freed/);
    expect(await page.locator('#largest tr').count()).toBe(12);
    await page.click('[data-event=peak]');
    await expect.poll(() => text(page, 'state-words')).toMatch(/: 6\.23 GiB used/);
    await page.click('[data-flame=chosen]');
    await expect.poll(() => page.getAttribute('[data-flame=chosen]', 'aria-pressed')).toBe('true');
    await close();
  });

  it('works with the keyboard alone, and says which axis it has', { tags: 'rest' }, async () => {
    const { page, close } = await open({ width: 1280, height: 900 });
    await page.focus('#time');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, 'time-readout')).toMatch(/^At .*event/);
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => text(page, 'time-readout')).toMatch(/Here: \S/);
    await page.keyboard.press('Enter');
    await expect.poll(() => text(page, 'frames')).toMatch(/innermost call first/);
    await page.keyboard.press('t');
    await expect.poll(() => text(page, 'axis-words')).toMatch(/order of events, not time/);
    await page.keyboard.press('+');
    await expect.poll(() => text(page, 'range')).toMatch(/^events /);
    await page.keyboard.press('0');
    await expect.poll(() => text(page, 'range')).toBe('all of the recording');
    await page.keyboard.press('m');
    await expect.poll(() => text(page, 'band-words')).toMatch(/below 1\d\.\d MiB/);
    await page.keyboard.press(']');
    await expect.poll(() => text(page, 'band-words')).toMatch(/below \d\.\d MiB/);
    await page.focus('#segment-map');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, 'map-readout')).toMatch(/^0x.*block of/);
    await page.focus('#flame');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => text(page, 'flame-readout')).toMatch(/<module> \(.*98\.3 %/);
    await close();
  });

  it('is as wide as a phone, with names, order and contrast', { tags: 'rest' }, async () => {
    const { page, close } = await open({ width: 390, height: 844 });
    await page.locator('#stack-list button').first().click();
    await page.locator('#frames').waitFor();
    const found = await audit(page);
    expect(found.filter((line) => !line.startsWith('a style of its own'))).toEqual([]);
    expect(await axeViolations(page)).toEqual([]);
    await close();
  });
});
