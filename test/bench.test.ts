import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

function bench(...argv: readonly string[]) {
  return spawnSync(process.execPath, [join(root, 'bench/index.mjs'), ...argv], {
    encoding: 'utf8',
  });
}

const listed = bench();
const table = listed.stdout
  .split('\n')
  .slice(1, -1)
  .map((line) => line.split(/ {2,}/));
const names = table.map(([name = '']) => name);

describe('npm run bench', () => {
  it('takes from dist only names that src exports', () => {
    const taken = projectFiles()
      .filter((path) => /^(bench|scripts|examples)\/.*\.mjs$/.test(path))
      .flatMap((path) =>
        [
          ...readFileSync(root + path, 'utf8').matchAll(
            /\{([^{}]*)\}\s*(?:from|= await import\()\s*'(?:\.\.\/)+dist\/([\w/-]+)\.js'/g,
          ),
        ].map(([, list = '', file = '']) => ({ path, list, file: `src/${file}.ts` })),
      );
    expect(taken.length).toBeGreaterThan(40);
    const missing = taken.flatMap(({ path, list, file }) => {
      const source = existsSync(root + file) ? readFileSync(root + file, 'utf8') : '';
      return list
        .split(',')
        .map((name) => name.trim().split(/\W/)[0] ?? '')
        .filter((name) => name !== '')
        .filter(
          (name) =>
            !new RegExp(`^export [^=({]*\\b${name}\\b|^  (type )?${name},?$`, 'm').test(source),
        )
        .filter((name) => !new RegExp(`^export (type )?\\{[^}]*\\b${name}\\b`, 'm').test(source))
        .map((name) => `${path}: ${name} of ${file}`);
    });
    expect(missing).toEqual([]);
  });

  it('lists each benchmark once, with a file that is there and one line', () => {
    expect(listed).toMatchObject({ status: 0, stderr: '' });
    expect(names.length).toBeGreaterThan(40);
    expect(new Set(names).size).toBe(names.length);
    for (const [name, file = '', does = ''] of table) {
      expect(existsSync(join(root, file)), `${name}: ${file}`).toBe(true);
      expect(does, `${name} in one line`).toMatch(/\w/);
    }
  });

  it('has each name that the pages and the code type', () => {
    const pages = projectFiles().filter((path) => /\.(md|mjs|ts|tsx|py|json)$/.test(path));
    const typed = pages.flatMap((path) =>
      [...readFileSync(join(root, path), 'utf8').matchAll(/npm run bench[: ]([a-z][a-z-]*)/g)].map(
        ([, name = '']) => ({ path, name }),
      ),
    );
    expect(typed.length).toBeGreaterThan(40);
    expect(typed.filter(({ name }) => !names.includes(name))).toEqual([]);
    expect(readFileSync(join(root, 'package.json'), 'utf8')).not.toContain('"bench:');
  });

  it('names the nearest benchmark for a name that is none, and ends with 2', () => {
    const result = bench('snapshots');
    expect(result).toMatchObject({ status: 2, stdout: '' });
    expect(result.stderr).toBe(
      'bench: There is no benchmark "snapshots". Did you mean "snapshot"? See "npm run bench".\n',
    );
  });

  it('hands options and the exit code on', () => {
    const result = bench('startup', '--no-such-option');
    expect(result.status).toBe(1);
    expect(result.stderr).toContain("Unknown option '--no-such-option'");
  });

  it('keeps the rows with the command, the date and the machine', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-bench-'));
    try {
      const file = join(folder, 'rows.json');
      const { status, stdout } = bench('startup', '--rounds', '1', '--rows', file);
      const kept = JSON.parse(readFileSync(file, 'utf8'));
      expect([0, 1]).toContain(status);
      expect(kept.command).toBe('npm run bench startup -- --rounds 1');
      expect(kept.date).toMatch(/^\d{4}-\d\d-\d\dT/);
      expect(kept.machine.cores).toBeGreaterThan(0);
      const printed = JSON.parse(stdout);
      expect(Object.keys(kept.result)).toEqual(Object.keys(printed));
      expect(kept.result.ratio).toBeCloseTo(printed.ratio, 4);
      expect(kept.result.target).toBe(printed.target);
      bench('startup', '--rounds', '1', '--rows', `${file}#second`);
      const both = JSON.parse(readFileSync(file, 'utf8'));
      expect({ ...both, second: undefined }).toEqual({ ...kept, second: undefined });
      expect(both.second.result.rounds).toBe(1);
    } finally {
      rmSync(folder, { recursive: true });
    }
    expect(bench('startup', '--rows')).toMatchObject({
      status: 2,
      stderr: 'bench: --rows needs a file.\n',
    });
  });
});
