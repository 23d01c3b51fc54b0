import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

/** More than these in one folder are not one idea. */
const maxFiles = 25;

/** Folders that may hold more, and why. */
const exceptions = new Map([['src/model/families', 'one file a family of models']]);

const maxLines = 400;

const source = /^(src|web\/src|web\/snapshot|python)\/.*\.(tsx?|py|css)$/;
/** A test beside its source is no part of the idea that has to be found. */
const besideSource = /\.(test|suite)\.tsx?$|-for-tests\.ts$/;

function crowded(files: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const path of files) {
    if (!source.test(path) || besideSource.test(path)) continue;
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > maxFiles)
    .map(([folder, count]) => `${folder}: ${count}`);
}

describe('folders', () => {
  it(`hold at most ${maxFiles} source files, in TypeScript and Python`, () => {
    const found = crowded(projectFiles()).filter(
      (line) => !exceptions.has(line.slice(0, line.indexOf(':'))),
    );
    expect(found).toEqual([]);
  });

  it('are exceptions only as long as they need to be', () => {
    const needed = new Set(crowded(projectFiles()).map((line) => line.slice(0, line.indexOf(':'))));
    expect([...exceptions.keys()].filter((folder) => !needed.has(folder))).toEqual([]);
  });

  it(`hold files of at most ${maxLines} lines`, () => {
    const long = projectFiles().filter(
      (path) =>
        source.test(path) &&
        !besideSource.test(path) &&
        !path.startsWith('python/tests/') &&
        readFileSync(root + path, 'utf8').split('\n').length > maxLines + 1,
    );
    expect(long).toEqual([]);
  });

  it('are counted without the tests beside the source', () => {
    const many = Array.from({ length: 26 }, (_, index) => `src/x/${index}`);
    expect(crowded(many.map((path) => `${path}.test.ts`))).toEqual([]);
    expect(crowded(many.map((path) => `${path}.ts`))).toEqual(['src/x: 26']);
    expect(crowded(many.map((path) => `${path.replace('src', 'python')}.py`))).toEqual([
      'python/x: 26',
    ]);
  });
});
