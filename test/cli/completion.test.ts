import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { needs } from '../support/needs.js';
import { useCommand } from './command.js';

const command = useCommand();

function isThere(shell: string): boolean {
  try {
    execFileSync(shell, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

describe('plimsoll models and gpus', () => {
  it('list the names that estimate takes', async () => {
    const { stdout } = await command.run(['models', 'llama', '8b', '--json']);
    const { models } = JSON.parse(stdout);
    expect(models.length).toBeGreaterThan(0);
    for (const { name, also, parameters } of models) {
      expect([name, ...also].join(' ').toLowerCase()).toMatch(/llama.*8b/);
      expect(parameters).toBeGreaterThan(6e9);
    }
    const gpus = JSON.parse((await command.run(['gpus', '4090', '--json'])).stdout).gpus;
    expect(gpus).toMatchObject([
      { name: 'NVIDIA GeForce RTX 4090', capacityBytes: 25_757_220_864 },
    ]);
  });

  it('are tables for people, and say that nothing has such a name', async () => {
    const { stdout } = await command.run(['gpus', 'h200']);
    expect(stdout).toMatch(/^card .*short .*memory\nNVIDIA H200 +H200-SXM +140 GiB|140\.\d GiB/);
    expect(await command.run(['models', 'nothing'])).toMatchObject({
      exitCode: 1,
      stdout: 'No models have these words.\n',
    });
  });
});

describe('the help of estimate and submit', () => {
  it.each(['estimate', 'submit'])(
    'of %s begins with the twelve that most people need',
    async (name) => {
      const { stdout } = await command.run([name, '--help']);
      const first = /Options used most:\n([^]*?)\n\n/.exec(stdout)?.[1] ?? '';
      expect(stdout.indexOf('Options used most:')).toBeLessThan(stdout.indexOf('Other options:'));
      expect(first.match(/^ {2}--/gm)).toHaveLength(12);
    },
  );
});

describe('plimsoll completion', () => {
  async function script(shell: string): Promise<string> {
    const { stdout, exitCode } = await command.run(['completion', shell]);
    expect(exitCode).toBe(0);
    const path = join(command.folder(), `completion.${shell}`);
    writeFileSync(path, stdout);
    return path;
  }

  it(
    'completes commands, options, models and cards in bash',
    needs(isThere('bash'), 'bash'),
    async () => {
      const path = await script('bash');
      const complete = (...words: readonly string[]) =>
        execFileSync(
          'bash',
          [
            '-c',
            `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _plimsoll; echo "\${COMPREPLY[@]}"`,
            ...[path, 'plimsoll', ...words],
          ],
          { encoding: 'utf8' },
        ).trim();
      expect(complete('estim')).toBe('estimate');
      expect(complete('estimate', '--max-m')).toBe('--max-model-len');
      expect(complete('estimate', '--gpu', '409')).toBe('4090');
      expect(complete('estimate', 'openai-community/gpt2-x')).toBe('openai-community/gpt2-xl');
    },
  );

  it('is read by zsh', needs(isThere('zsh'), 'zsh'), async () => {
    const path = await script('zsh');
    expect(() => execFileSync('zsh', ['-n', path])).not.toThrow();
  });

  it('is read by fish', needs(isThere('fish'), 'fish'), async () => {
    const path = await script('fish');
    expect(() => execFileSync('fish', ['-n', path])).not.toThrow();
  });

  it('has every command in each shell, and the words as JSON', async () => {
    const { commands } = JSON.parse((await command.run(['completion', 'bash', '--json'])).stdout);
    const names = commands.map(({ name }: { name: string }) => name);
    expect(names).toEqual(expect.arrayContaining(['estimate', 'submit', 'models', 'check']));
    expect(names).not.toContain('on-node');
    for (const shell of ['zsh', 'fish']) {
      const { stdout } = await command.run(['completion', shell]);
      for (const name of names) expect(stdout).toContain(name);
      expect(stdout).toContain('max-model-len');
    }
  });
});
