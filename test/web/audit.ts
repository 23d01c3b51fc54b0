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
