import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

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
