import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { keyBindings, mouseUses } from '../src/cli/monitor/keys.js';
import { sortColumns, sortLetters } from '../src/cli/monitor/sort-rows.js';
import { themeNames } from '../src/report/text/spans.js';
import { root } from './support/project-files.js';

const page = readFileSync(join(root, 'docs/monitor.md'), 'utf8');
const rows = page.split('\n').filter((line) => line.startsWith('| '));

describe('docs/monitor.md', () => {
  it('has a row for every key, beside nvitop and btop, in the order of the table', () => {
    const keys = keyBindings.map(
      ({ shown, does, nvitop, btop }) => `| \`${shown}\` | ${does} | ${nvitop} | ${btop} |`,
    );
    expect(rows.filter((line) => line.startsWith('| `'))).toEqual(keys);
  });

  it('tells what the mouse does, the letters of the columns, and the themes', () => {
    for (const { shown, does } of mouseUses) expect(rows).toContain(`| ${shown} | ${does} |`);
    const letters = sortColumns.map((column) => `\`${sortLetters[column].letter}\` ${column}`);
    expect(page).toContain(`After \`o\`: ${letters.join(', ')}.`);
    for (const name of themeNames) expect(page).toContain(`\`${name}\``);
  });
});
