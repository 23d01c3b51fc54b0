import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { configVariables } from '../src/config/environment.js';
import { defaultSettings } from '../src/config/settings.js';
import { type Advice, environmentRules } from '../src/plan/environment/rules.js';
import { presetFacts } from '../src/plan/quantization/presets.js';
import { useCommand } from './cli/command.js';
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
  const command = useCommand();
  const sections = new Map(
    page('docs/commands.md')
      .split(/^## /m)
      .map((section) => [section.split('\n')[0] ?? '', section]),
  );

  it('has a section for every command that tells every option of it, and no other', async () => {
    const { stdout: help } = await command.run(['--help']);
    const listed = /^Commands:\n(.*?)\n\n/ms.exec(help)?.[1] ?? '';
    const names = [...listed.matchAll(/^ {2}(\w+)/gm)].map((match) => match[1] ?? '');
    expect(names).toContain('monitor');
    const untold: string[] = [];
    for (const name of names.filter((one) => one !== 'help')) {
      const section = sections.get(`plimsoll ${name}`) ?? '';
      const { stdout } = await command.run([name, '--help']);
      const options = [...stdout.matchAll(/^ +(?:-\w, )?(--[a-z-]+)/gm)].map((match) => match[1]);
      expect(options.length).toBeGreaterThan(0);
      const shared = sections.get('Options of every command') ?? '';
      for (const option of options) {
        if (!section.includes(`\`${option}`) && !shared.includes(`\`${option}`)) {
          untold.push(`${name} ${option}`);
        }
      }
      // Its options belong to its own commands: add, change.
      const { stdout: below } =
        name === 'users' ? await command.run([name, 'change', '--help']) : { stdout: '' };
      const rows = [...section.matchAll(/^\| `(--[a-z-]+)/gm)].map((match) => match[1] ?? '');
      untold.push(
        ...rows.filter((row) => !(stdout + below).includes(row)).map((row) => `no ${name} ${row}`),
      );
    }
    expect(untold).toEqual([]);
  });
});
