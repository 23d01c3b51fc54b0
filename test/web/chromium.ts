import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll } from 'vitest';
import { madeOnce } from '../support/made-once.js';
import { needs } from '../support/needs.js';
import { root } from '../support/project-files.js';

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

/** The page as it is now, built away from `dist`, so that no test sees yesterday's. */
export function builtPage(): Promise<string> {
  return madeOnce('page', (outDir) =>
    build({
      configFile: join(root, 'web/vite.config.ts'),
      logLevel: 'error',
      build: { outDir, emptyOutDir: true },
    }),
  );
}

export interface WatchedPage {
  readonly page: Page;
  /**
   * Closes it; throws where the page complained (errors, warnings, refused by its policy) or asked
   * for something beyond its own server.
   */
  readonly close: () => Promise<void>;
}

/** A page that remembers what went wrong in it. A server that is away is no fault of the page. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  // Of this page and of every other that is opened from it.
  context.setDefaultTimeout(300_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    const text = message.text();
    if (['error', 'warning'].includes(message.type()) && !/Failed to load resource/.test(text)) {
      complaints.push(text);
    }
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) complaints.push(request.url());
  });
  await page.goto(url);
  return {
    page,
    async close() {
      await context.close();
      if (complaints.length > 0) throw new Error(complaints.join('\n'));
    },
  };
}
