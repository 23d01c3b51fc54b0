import axe from 'axe-core';
import type { Page } from 'playwright-core';

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
