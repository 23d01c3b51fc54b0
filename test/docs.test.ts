import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { configVariables } from '../src/config/environment.js';
import { defaultSettings } from '../src/config/settings.js';
import { type Advice, environmentRules } from '../src/plan/environment/rules.js';
import { presetFacts } from '../src/plan/quantization/presets.js';
import { commandsPage } from './support/commands-page.js';
import { projectFiles, root } from './support/project-files.js';

const pages = projectFiles()
  .filter((path) => path.endsWith('.md'))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

function page(path: string): string {
  const found = pages.find((one) => one.path === path);
  if (!found) throw new Error(`there is no ${path}`);
  return found.text;
}

function shownDefault([first = '', second = '', ...rest]: readonly string[]): string {
  // The settings keep delivery apart from the thresholds.
  const keys = second === 'deliver' ? [second, ...rest] : [first, second, ...rest];
  const value = keys
    .filter((key) => key !== '')
    .reduce<unknown>((node, key) => Reflect.get(Object(node), key), defaultSettings);
  if (first === 'devices') return 'all';
  return value === undefined ? 'none' : (JSON.stringify(value) ?? '').replaceAll('"', '');
}

describe('the pages', () => {
  it('link only to files that are there', () => {
    const broken = pages.flatMap(({ path, text }) =>
      [...text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)]
        .map((match) => match[1] ?? '')
        .filter((target) => !existsSync(join(root, dirname(path), target)))
        .map((target) => `${path} -> ${target}`),
    );
    expect(broken).toEqual([]);
  });

  it('show JSON that is JSON', () => {
    const everything = pages.map(({ text }) => text).join('\n');
    const blocks = [...everything.matchAll(/^```json\n(.*?)^```/gms)];
    expect(blocks.length).toBeGreaterThan(0);
    for (const block of blocks) expect(() => JSON.parse(block[1] ?? '')).not.toThrow();
  });
});

describe('README.md', () => {
  it('is one page', () => {
    expect(page('README.md').split(/\s+/).length).toBeLessThanOrEqual(900);
  });
});

describe('docs/configuration.md', () => {
  const rows = page('docs/configuration.md')
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')));

  it('has one row for every key, with its variable and its default', () => {
    const shown = rows.filter((cells) => cells[2]?.startsWith('PLIMSOLL_'));
    const expected = [...configVariables()].map(([variable, { path }]) => [
      path.join('.'),
      variable,
      shownDefault(path),
    ]);
    expect(shown.map((cells) => cells.slice(1, 4))).toEqual(expected);
  });
});

describe('docs/environment.md', () => {
  it('has one row for every variable, with its values', () => {
    const rows = page('docs/environment.md')
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
      .filter((cells) => /^[A-Z0-9_]+$/.test(cells[1] ?? ''));
    const shown = (advice: Advice | undefined, cell: string | undefined): string | undefined => {
      if (advice === undefined) return '';
      if (advice.action === 'unset') return 'unset';
      // A value that depends on the machine is told in words.
      if (typeof advice.value !== 'string') return cell;
      return advice.action === 'set' ? advice.value : `${advice.value} ?`;
    };
    expect(rows.map((cells) => [cells[1], cells[3], cells[4]])).toEqual(
      environmentRules.map(({ name, production, debug }, index) => [
        name,
        shown(production, rows[index]?.[3]),
        shown(debug, rows[index]?.[4]),
      ]),
    );
  });
});

describe('docs/quantization.md', () => {
  it('has one row for every preset, with its size', () => {
    const rows = page('docs/quantization.md')
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
      .filter((cells) => Object.hasOwn(presetFacts, cells[1] ?? ''));
    expect(rows.map((cells) => [cells[1], cells[2]])).toEqual(
      Object.entries(presetFacts).map(([preset, { bytesPerParameter }]) => [
        preset,
        String(Number(bytesPerParameter.toFixed(4))),
      ]),
    );
  });
});

describe('docs/commands.md', () => {
  it('is the help of every command (UPDATE_COMMANDS=1 writes it)', async () => {
    const made = await commandsPage();
    const path = join(root, 'docs/commands.md');
    if (process.env['UPDATE_COMMANDS'] === '1') writeFileSync(path, made);
    expect(readFileSync(path, 'utf8')).toBe(made);
    for (const name of ['monitor', 'estimate', 'users add']) {
      expect(made).toMatch(new RegExp(`^##+ plimsoll ${name}$`, 'm'));
    }
    expect(made).toContain('| `--threshold <percent>` |');
  });
});
