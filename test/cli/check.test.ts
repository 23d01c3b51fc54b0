import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { checkMarkdown } from '../../src/report/check-words.js';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';

const command = useCommand();
const config = JSON.parse(readFileSync(join(root, 'bench/truth/configs/gpt2.json'), 'utf8'));
const options = ['--batch', '4', '--seq', '128', '--precision', 'fp32', '--method', 'formula'];

const gpt2Estimate = {
  method: 'trace',
  peak: { allocatedBytes: 1, reservedBytes: 1, deviceBytes: 1, leastCapacityBytes: 1 },
  interval: { lowBytes: 1, highBytes: 1, confidence: 0.95 },
  notes: [],
} as const;

describe('plimsoll check, in a real git history', () => {
  let folder = '';
  let base = '';
  const git = (...words: readonly string[]) =>
    execFileSync('git', ['-C', folder, ...words], { encoding: 'utf8' }).trim();
  const write = (name: string, content: object) =>
    writeFileSync(join(folder, name), JSON.stringify(content));
  const programs = (budget: string) => ({
    programs: [
      { name: 'gpt2', budget, estimate: ['model/config.json', ...options, '--gpu', 't4'] },
      { name: 'new one', estimate: ['new/config.json', ...options, '--gpu', 't4'] },
    ],
  });

  beforeAll(() => {
    folder = join(command.folder(), 'repository');
    for (const name of ['model', 'new']) mkdirSync(join(folder, name), { recursive: true });
    git('init', '--quiet');
    git('config', 'user.name', 'Ada');
    git('config', 'user.email', 'ada@example.org');
    write('model/config.json', { ...config, n_layer: 2 });
    write('plimsoll.check.json', programs('8GiB'));
    git('add', '.');
    git('commit', '--quiet', '--message', 'two layers');
    base = git('rev-parse', 'HEAD');
    write('model/config.json', { ...config, n_layer: 6 });
    write('new/config.json', { ...config, n_layer: 1 });
    git('add', '.');
    git('commit', '--quiet', '--message', 'six layers');
  });

  const check = (words: readonly string[], environment = {}) =>
    command.run(['check', ...words], { cwd: folder, environment });

  it('tells the peak before and after, by part, and a program that the base has not', async () => {
    const { stdout, stderr, exitCode } = await check(['--base', base, '--json']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const [gpt2, added] = JSON.parse(stdout).programs;
    expect(gpt2.peakBytes).toBeGreaterThan(gpt2.baseBytes);
    const weights = (rows: readonly { part: string; bytes: number }[]) =>
      rows.find(({ part }) => part === 'weights')?.bytes ?? 0;
    const layer = 7_087_872;
    expect(weights(gpt2.breakdown) - weights(gpt2.baseBreakdown)).toBe(4 * 4 * layer);
    expect(added).toMatchObject({ name: 'new one', baseBytes: 'unknown', isOverBudget: false });
    expect(git('worktree', 'list').split('\n')).toHaveLength(1);
  });

  it('takes the base of a recorded event of a pull request, and writes the comment', async () => {
    const event = join(command.folder(), 'event.json');
    const recorded = readFileSync(join(root, 'test/fixtures/pull-request-event.json'), 'utf8');
    writeFileSync(event, recorded.replaceAll('BASE_SHA', base));
    const written = ['--markdown', 'comment.md'];
    const { exitCode } = await check(written, { GITHUB_EVENT_PATH: event });
    expect(exitCode).toBe(0);
    const comment = readFileSync(join(folder, 'comment.md'), 'utf8');
    expect(comment).toContain('| program | before | after | change | budget |');
    expect(comment).toMatch(/\| gpt2 \| 1\.7 GiB \| 2\.2 GiB \| \+544 MiB \| 8\.0 GiB \|/);
    expect(comment).toMatch(/\| weights \| .* \| \+108 MiB \|/);
    expect(comment).toContain(base.slice(0, 12));
  });

  it('fails past a budget, in words and as SARIF', async () => {
    writeFileSync(join(folder, 'small.json'), JSON.stringify(programs('600MiB')));
    const { stdout, exitCode } = await check(['small.json', '--sarif', 'found.sarif']);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/gpt2: .*budget 600 MiB: over budget/);
    const sarif = JSON.parse(readFileSync(join(folder, 'found.sarif'), 'utf8'));
    expect(sarif.version).toBe('2.1.0');
    expect(sarif.runs[0].results).toHaveLength(1);
    expect(sarif.runs[0].results[0]).toMatchObject({ ruleId: 'gpu-memory-budget', level: 'error' });
  });

  it('refuses a list that is none, and a commit that is not there', async () => {
    writeFileSync(join(folder, 'bad.json'), '{"programs": [{"name": "x"}]}');
    const bad = await check(['bad.json']);
    expect(bad).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('bad-check-file') });
    const none = await check(['--base', '--output=x']);
    expect(none).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('no-base') });
  });
});

describe('checkMarkdown', () => {
  const estimate = (bytes: number) => ({
    ...gpt2Estimate,
    breakdown: [
      {
        part: 'activations' as const,
        bytes,
        modules: [{ module: 'h.*.mlp', count: 12, bytes }],
      },
    ],
  });

  it('names the layers that grew, the most first', () => {
    const row = { name: 'a|b', before: estimate(2 ** 30), after: estimate(3 * 2 ** 30) };
    const text = checkMarkdown({ rows: [row], base: 'main', file: 'x.json' });
    expect(text).toContain('Layers that grew: `h.*.mlp (12)` +2.0 GiB.');
    expect(text).toContain(String.raw`| a\|b |`);
  });
});

describe('action.yml', () => {
  it('runs commands and options that exist', async () => {
    const action = readFileSync(join(root, 'action.yml'), 'utf8');
    const { stdout } = await command.run(['check', '--help']);
    const used = /plimsoll\.js" check [^|]*/.exec(action)?.[0].match(/--[a-z-]+/g) ?? [];
    expect(used).toEqual(['--markdown', '--sarif']);
    for (const option of used) expect(stdout).toContain(option);
  });
});

describe('plimsoll card', () => {
  it('writes a table of methods and cards', async () => {
    const { stdout, exitCode } = await command.run([
      'card',
      'gpt2',
      '--seq',
      '512',
      '--gpus',
      't4',
      'h200',
    ]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain('| method | peak | Tesla T4, 15.0 GiB | H200, 140.4 GiB |');
    expect(stdout).toMatch(/\| inference, bf16 \| .* \| yes \| yes \|/);
  });

  it('says that a card has no room', async () => {
    const { stdout } = await command.run(['card', 'llama-3-8b', '--gpus', '4090', '--json']);
    const [full] = JSON.parse(stdout).methods;
    expect(full).toMatchObject({ method: 'full training, fp32', cards: [{ fits: 'no' }] });
  });
});
