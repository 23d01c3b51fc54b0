import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cleanEnvironment, useCommand } from './cli/command.js';
import { useHome } from './cli/served.js';
import { needsTorch, tracingPython } from './support/needs.js';
import { root } from './support/project-files.js';

/** Longer than all rows together take anywhere; it only ends what hangs. */
const limitMs = 600_000;

const page = readFileSync(join(root, 'docs/coming-from.md'), 'utf8');
const rows = page.split('\n').flatMap((line) => {
  const cells = /^\| (?<there>.+) \| (?<here>.+) \| `(?<run>[^`]+)` \|$/.exec(line)?.groups;
  return cells === undefined ? [] : [{ there: '', here: '', run: '', ...cells }];
});
const commands = rows.filter(({ run }) => run.startsWith('plimsoll '));
const requests = rows.filter(({ run }) => run.startsWith('GET '));
const snippets = rows.filter((row) => !commands.includes(row) && !requests.includes(row));

/** Every name of the five projects that a program, a script or a configuration could use. */
const names: readonly string[] = readFileSync(join(root, 'test/fixtures/earlier-names.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

describe('docs/coming-from.md', () => {
  const command = useCommand();
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-coming-'));
    mkdirSync(join(folder, '.git'));
    mkdirSync(join(folder, 'gpt2-model'));
    const sizes = { n_embd: 768, n_layer: 12, n_head: 12, n_positions: 1024, vocab_size: 50257 };
    const config = JSON.stringify({ model_type: 'gpt2', ...sizes });
    writeFileSync(join(folder, 'gpt2-model/config.json'), config);
    writeFileSync(join(folder, 'plimsoll.config.json'), '{"intervalSeconds": 0.1}');
    writeFileSync(join(folder, 'clean.py'), 'print("nothing to change")\n');
  });
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('has rows of each kind, and a row for every name', () => {
    expect(commands.length).toBeGreaterThan(30);
    expect(requests.length).toBeGreaterThan(4);
    expect(snippets.length).toBeGreaterThan(50);
    expect(names.length).toBeGreaterThan(150);
    const there = rows.map((row) => row.there).join('\n');
    expect(names.filter((name) => !there.includes(name))).toEqual([]);
  });

  it('names only commands, options, functions and fields that exist', () => {
    const [tables = ''] = page.split('## Their figures, measured');
    const cells = tables
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .flatMap((line) => codeIn(line.split(' | ')[1] ?? ''));
    expect(cells.length).toBeGreaterThan(200);
    const options = readFileSync(join(root, 'docs/commands.md'), 'utf8');
    const known = identifiersOf(options);
    for (const source of ['src', 'python/plimsoll', 'schema'].flatMap(sourcesBelow)) {
      for (const name of identifiersOf(readFileSync(source, 'utf8'))) known.add(name);
    }
    const wrong = cells.filter(
      (cell) =>
        (cell.match(/--[a-z][a-z-]+/g) ?? []).some((option) => !options.includes(`\`${option}`)) ||
        [...identifiersOf(cell.replaceAll(/"[^"]*"|--[a-z-]+|=\S+|: \S+/g, ' '))].some(
          (name) => !known.has(name) && !elsewhere.has(name),
        ),
    );
    expect(wrong).toEqual([]);
  });

  it('runs each row of Python', { ...needsTorch, tags: 'rest' }, () => {
    const prelude = /```python\n(import plimsoll, torch\n.*?)```/s.exec(page)?.[1] ?? '';
    expect(prelude).toContain('dataset = ');
    const request = JSON.stringify({ prelude, rows: snippets.map(({ run }) => run) });
    const ended = spawnSync(tracingPython, [join(root, 'test/support/run_rows.py')], {
      cwd: folder,
      env: {
        ...cleanEnvironment({ PLIMSOLL_HOME: join(folder, 'home') }),
        PYTHONPATH: join(root, 'python'),
      },
      input: request,
      encoding: 'utf8',
      timeout: limitMs,
    });
    const answer: { done: number; failed: readonly string[] } = JSON.parse(
      ended.stdout.trim().split('\n').at(-1) ?? '',
    );
    expect(answer).toEqual({ done: snippets.length, failed: [] });
  });

  it('runs each command and request of it', async () => {
    const home = useHome(command);
    const server = await home.serve();
    const failed: string[] = [];
    const waiting = [...commands];
    // A few at once: most of them wait for a clock.
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const { run } = next;
        const [, ...argv] = shellSplit(run);
        const { exitCode, stderr } = await home.run(argv, { cwd: folder });
        if (exitCode !== 0) failed.push(`${run}: ${exitCode} ${stderr}`);
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    for (const { run } of requests) {
      const { status } = await server.ask(run.slice('GET '.length));
      if (status !== 200) failed.push(`${run}: ${status}`);
    }
    expect(failed).toEqual([]);
  });
});

/** Of PyTorch, of a shell, and names that stand for a value. */
const elsewhere = new Set(['deploy', 'FILE', 'MODEL', 'eval', 'torchrun', 'yaml', 'compose']);

function codeIn(cell: string): readonly string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

function identifiersOf(text: string): Set<string> {
  return new Set(text.match(/[A-Za-z_]\w+/g));
}

/** Our own sources, without the tests. */
function sourcesBelow(folder: string): readonly string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:ts|py|json)$/.test(name) && !/test/.test(name))
    .map((name) => join(root, folder, name));
}

/** Words of a command line, with double quotes around those that have blanks. */
function shellSplit(line: string): readonly string[] {
  return [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
