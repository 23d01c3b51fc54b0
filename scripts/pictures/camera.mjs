import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const looks = {
  'desk-light': { size: 'desk', width: 1280, colorScheme: 'light' },
  'desk-dark': { size: 'desk', width: 1280, colorScheme: 'dark' },
  'phone-light': { size: 'phone', width: 390, colorScheme: 'light' },
};
/** docs/dashboard.md shows these of a page that names no others. */
const usual = ['desk-light'];
/** A longer page is cut: what comes below is in the other pictures, or more of the same. */
const tallest = { desk: 1500, phone: 1700 };
const quality = 62;

export async function openBrowser() {
  const executablePath = (process.env.PATH ?? '')
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find(isProgram);
  if (executablePath === undefined) throw new Error(`No Chromium: looked for ${names.join(', ')}.`);
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, args });
}

/** One picture for each look: `overview-desk-light.webp`. */
export async function takePictures(browser, { name, open, from, shown = usual }, keep) {
  for (const look of shown) {
    const { size, width, colorScheme } = looks[look];
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 844 } });
    const page = await context.newPage();
    page.setDefaultTimeout(600_000);
    await open(page);
    const whole = await page.evaluate('document.documentElement.scrollHeight');
    await page.setViewportSize({ width, height: whole });
    const y = from === undefined ? 0 : await topOf(page, from);
    const height = Math.min(whole - y, tallest[size]);
    // Charts are drawn after the next frames.
    await page.waitForTimeout(1500);
    const camera = await context.newCDPSession(page);
    const clip = { x: 0, y, width, height, scale: 1 };
    const options = { format: 'webp', quality, clip, captureBeyondViewport: true };
    const { data } = await camera.send('Page.captureScreenshot', options);
    keep(`${name}-${look}.webp`, Buffer.from(data, 'base64'));
    await context.close();
  }
}

/** A little above an element. */
async function topOf(page, selector) {
  const box = await page.locator(selector).boundingBox();
  return Math.max(0, Math.round((box?.y ?? 0) - 24));
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
