import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

const commands = readFileSync(join(root, 'docs/commands.md'), 'utf8');
const recipes = projectFiles().filter((path) => path.startsWith('docs/recipes/'));

/** Other pages that begin with commands to type. */
const others = ['README.md', 'docs/ja/README.md', 'docs/monitor.md', 'docs/plan.md'];

/** What is typed after `plimsoll`, up to `--`. */
function typed(text: string): readonly string[] {
  return [...text.matchAll(/^```bash\n(.*?)^```/gms)]
    .flatMap(([, block = '']) => block.split('\n'))
    .map((line) => line.replace(/\s#.*$/, '').trimEnd())
    .filter((line) => !/^(pip|npm) /.test(line))
    .flatMap((line) => /(?:^|\s)plimsoll\s(.*)$/.exec(line)?.[1] ?? [])
    .map((words) => words.split(/(?:^|\s)--(?:\s|$)/)[0] ?? '');
}

function section(command: string): string {
  return (
    commands
      .split(/^## plimsoll /m)
      .find((part) => part.split('\n')[0]?.split(/\s/)[0] === command) ?? ''
  );
}

const shared = commands.split(/^## /m).find((part) => part.startsWith('Options of every')) ?? '';

describe('the recipes', () => {
  it('are there, and listed in docs/README.md', () => {
    const door = readFileSync(join(root, 'docs/README.md'), 'utf8');
    expect(recipes.length).toBe(8);
    expect(recipes.filter((path) => !door.includes(path.slice('docs/'.length)))).toEqual([]);
  });

  it.each([...recipes, ...others])('%s types commands and options that there are', (path) => {
    for (const words of typed(readFileSync(join(root, path), 'utf8'))) {
      const [command = '', ...rest] = words.trim().split(/\s+/);
      expect(section(command), `plimsoll ${command}`).not.toBe('');
      const text = section(command) + shared;
      for (const option of rest.filter((word) => word.startsWith('--'))) {
        expect(text, `plimsoll ${command} ${option}`).toContain(option);
      }
    }
  });
});
