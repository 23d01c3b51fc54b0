import type { Page } from 'playwright-core';

/** No page of ours has more stops; only a page that catches the focus does. */
const maxStops = 400;

/**
 * Goes through a page with the Tab key: what cannot be reached so, and what does not show that it has
 * the focus. None where all is well.
 *
 * @example
 * expect(await keyboardFaults(page)).toEqual([]);
 */
export async function keyboardFaults(page: Page): Promise<readonly string[]> {
  await page.evaluate(prepare);
  const faults: string[] = [];
  for (let stop = 0; stop < maxStops; stop++) {
    await page.keyboard.press('Tab');
    const { isRound, fault } = await page.evaluate<Stop>(look);
    if (fault !== '') faults.push(fault);
    if (isRound) break;
  }
  return [...faults, ...(await page.evaluate<string[]>(unreached))];
}

interface Stop {
  readonly isRound: boolean;
  readonly fault: string;
}

/** One radio button of a group has the focus for all; what the browser hides needs none. */
const prepare = `(() => {
  document.activeElement?.blur?.();
  window.stopsSeen = new Set();
  window.stopsWanted = [...document.querySelectorAll(
      'a[href], button:enabled, input:enabled, select:enabled, textarea:enabled, summary, [tabindex="0"]')]
    .filter((element) => element.checkVisibility() && element.tabIndex >= 0)
    .filter((element) => !(element.type === 'radio' && !element.checked));
  window.stopWords = (element) => element.outerHTML.slice(0, 120);
})()`;

const look = `(() => {
  const element = document.activeElement;
  // Between the end of the page and its beginning nothing has the focus.
  if (element === null || element === document.body) return { isRound: false, fault: '' };
  if (stopsSeen.has(element)) return { isRound: true, fault: '' };
  stopsSeen.add(element);
  const shown = element.matches('.segments input') ? element.nextElementSibling : element;
  const { outlineStyle, outlineWidth } = getComputedStyle(shown);
  const isShown = outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
  return { isRound: false, fault: isShown ? '' : 'no focus shown: ' + stopWords(element) };
})()`;

/** What left the page meanwhile needs no focus any more. */
const unreached = `stopsWanted
  .filter((element) => element.isConnected && !stopsSeen.has(element))
  .map((element) => 'not reached with Tab: ' + stopWords(element))`;
