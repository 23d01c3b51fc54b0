import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

const commands = readFileSync(join(root, 'docs/commands.md'), 'utf8');
const recipes = projectFiles().filter((path) => path.startsWith('docs/recipes/'));

/** What is typed after `plimsoll`, up to `--`. */
function typed(text: string): readonly string[] {
  return [...text.matchAll(/^```bash\n(.*?)^```/gms)]
    .flatMap(([, block = '']) => block.split('\n'))
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

describe('the recipes', () => {
  it('are there, and listed in the README', () => {
    const readme = readFileSync(join(root, 'README.md'), 'utf8');
    expect(recipes.length).toBe(8);
    expect(recipes.filter((path) => !readme.includes(path))).toEqual([]);
  });

  it.each(recipes)('%s types commands and options that there are', (path) => {
    for (const words of typed(readFileSync(join(root, path), 'utf8'))) {
      const [command = '', ...rest] = words.trim().split(/\s+/);
      const text = section(command);
      expect(text, `plimsoll ${command}`).not.toBe('');
      for (const option of rest.filter((word) => word.startsWith('--'))) {
        expect(text, `plimsoll ${command} ${option}`).toContain(option);
      }
    }
  });
});
