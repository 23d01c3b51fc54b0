import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';
import { needs } from '../support/needs.js';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The browser of this machine; undefined where it has none. */
const chromiumPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .flatMap((folder) => names.map((name) => join(folder, name)))
  .find(isProgram);

export const needsChromium = needs(
  chromiumPath !== undefined,
  `Chromium on the PATH (${names.join(', ')})`,
);

/** A real browser for the tests of a file; open pages with `newPage`. */
export function useChromium(): { browser: () => Browser } {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: chromiumPath ?? '',
      // The limit is that of the hook.
      timeout: 0,
      // Where the tests run as root, as in a container, Chromium starts in no other way.
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    });
  });
  afterAll(async () => browser?.close());
  return {
    browser() {
      if (browser === undefined) throw new Error('the browser has not started');
      return browser;
    },
  };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
