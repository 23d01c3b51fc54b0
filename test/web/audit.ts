import axe from 'axe-core';
import type { Page } from 'playwright-core';

/**
 * What a person with a screen reader or a keyboard would stumble over: controls and pictures
 * without a name, fields that only a placeholder explains, ids that are there twice, headings that
 * leave out a level, texts cut off, a page wider than its window.
 */
export async function audit(page: Page): Promise<readonly string[]> {
  return page.evaluate<string[]>(inThePage);
}

const inThePage = `(() => {
  const found = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const seen = (element) => element.getClientRects().length > 0;
  const words = (element) => (element.getAttribute('aria-label')
    ?? (element.getAttribute('aria-labelledby') ?? '').split(' ')
      .map((id) => document.getElementById(id)?.textContent ?? '').join(' ')).trim();
  const name = (element) => words(element)
    || [...(element.labels ?? [])].map((label) => label.textContent).join(' ').trim()
    || (element.matches('input, select, textarea') ? '' : element.textContent.trim());
  const where = (element) => element.outerHTML.slice(0, 120);
  for (const element of all('a, button, input, select, textarea, summary, [tabindex="0"]')) {
    if (seen(element) && name(element) === '') found.push('no name: ' + where(element));
  }
  for (const element of all('[role=img], section, article, nav, dialog, [role=table], [role=region]')) {
    if (seen(element) && words(element) === '' && !element.matches('article')) {
      found.push('no name: ' + where(element));
    }
  }
  for (const element of all('svg, canvas')) {
    if (!element.matches('[aria-hidden=true], [role=img]') && !element.closest('[aria-hidden=true], [role=img]')) {
      found.push('a picture without words: ' + where(element));
    }
  }
  const ids = all('[id]').map(({ id }) => id);
  for (const id of new Set(ids)) {
    if (ids.filter((other) => other === id).length > 1) found.push('twice: #' + id);
  }
  let level = 0;
  for (const heading of all('h1, h2, h3, h4').filter(seen)) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) found.push('heading jumps to ' + next + ': ' + where(heading));
    level = next;
  }
  if (all('h1').filter(seen).length !== 1) found.push('not one h1');
  if (all('main').length !== 1) found.push('not one main');
  for (const element of all('h1, h2, h3, button, label, th, dt, dd, .tag, .state')) {
    if (seen(element) && element.scrollWidth > element.clientWidth + 1
      && getComputedStyle(element).overflowX !== 'visible' && !element.closest('.aside')
      && !element.matches('.aside')) {
      found.push('cut off: ' + where(element));
    }
  }
  // On a screen as wide as that of a laptop, tables and reasons are whole.
  for (const element of innerWidth < 1280 ? [] : all('.scroll, .why')) {
    if (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1) {
      found.push('cut off: ' + where(element));
    }
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the window');
  for (const element of all('[style]')) {
    if (element.closest('.uplot') === null && !element.matches('.rows, .job-row, .node-row')) {
      found.push('a style of its own: ' + where(element));
    }
  }
  return found;
})()`;

/** How a page is looked at: on a desk and on a phone, in light and in dark. Dark changes colours alone. */
const looks = [
  { width: 1280, colorScheme: 'light', rules: 'all' },
  { width: 1280, colorScheme: 'dark', rules: 'colours' },
  { width: 390, colorScheme: 'light', rules: 'all' },
  { width: 390, colorScheme: 'dark', rules: 'colours' },
] as const;
const colourRules = ['color-contrast', 'link-in-text-block'];

const height = 844;

/**
 * What axe-core finds wrong with a page that is open, in every look: names, roles, contrast, order.
 * One line for each element; none where all is well. It leaves the page in the last look.
 *
 * @example
 * expect(await axeViolations(page)).toEqual([]);
 */
export async function axeViolations(page: Page): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { width, colorScheme, rules } of looks) {
    await page.setViewportSize({ width, height });
    // Colours that still change would be judged half-way.
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const lines = await violationsNow(page, rules);
    found.push(...lines.map((line) => `${width} px, ${colorScheme}: ${line}`));
  }
  return found;
}

/** Not with a script tag: the policy of the page lets no text become code. */
async function violationsNow(
  page: Page,
  rules: (typeof looks)[number]['rules'],
): Promise<readonly string[]> {
  const runOnly = rules === 'all' ? {} : { runOnly: { type: 'rule', values: colourRules } };
  const options = JSON.stringify({ resultTypes: ['violations'], ...runOnly });
  await page.evaluate(`if (window.axe === undefined) { ${axe.source} }`);
  return page.evaluate<string[]>(`axe
    .run(document, ${options})
    .then(({ violations }) => violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, any, all, none }) =>
        id + ': ' + html.slice(0, 160) + ' ' +
        [...any, ...all, ...none].map(({ message }) => message).join('; '))))`);
}

/** How well one colour stands out from another, 1 to 21, as WCAG counts it. Both are `#rrggbb` or `#rgb`. */
export function contrast(one: string, other: string): number {
  const [light = 1, dark = 1] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: string): number {
  const channels = /^#(..?)(..?)(..?)$/.exec(colour)?.slice(1);
  if (channels === undefined) throw new Error(`${colour} is no colour`);
  const [red = 0, green = 0, blue = 0] = channels.map((hex) => {
    const share = Number.parseInt(hex.padEnd(2, hex), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

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
