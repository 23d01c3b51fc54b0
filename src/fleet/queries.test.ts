import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { historyQueryNames, instantQueries, instantQueryNames } from './queries.js';

it('are those of docs/fleet.md, and no others', () => {
  const page = readFileSync(new URL('../../docs/fleet.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| (\w+) \| `(max by .*)` \|$/gm)].map(([, name, text]) => [
    name,
    text?.replaceAll('[WINDOW]', '[3600s]'),
  ]);
  expect(rows).toEqual(instantQueryNames.map((name) => [name, instantQueries(3600)[name]]));
  expect(page).toContain(`| ${historyQueryNames.join(', ')} |`);
  expect(page).toContain(`There are ${instantQueryNames.length + historyQueryNames.length},`);
});
