import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

/** Names that needed a dictionary, and what the field calls them. */
const names: readonly (readonly [RegExp, string])[] = [
  [/\b\w*[a-z]Way\b|\bWay(?:[A-Z]\w*)?\b/, 'method, configuration, direction'],
  [/\b\w*(?:Weighed|InTurn)\b/, 'options, staggered'],
  [/\bmost(?:[A-Z]\w*|_(?!precise|common)\w+)|\b_?MOST_\w+/, 'max...'],
  [
    /\b(?:const|let|var|function|def) #?_?(?:told|tell)\b|\b(?:class|interface|type) Told\b|[a-z]Told\b|\btold(?:[A-Z]|_)\w*/,
    'reported, announced, printed, sent',
  ],
  [/\bopenWays\b|\b(?:const|let|type|interface) (?:fall|Fall|way)\b/, 'input, method'],
  [/\bcarr(?:y|ies|ying|ied)[A-Z_]\w*/, 'pass, hold, contain'],
  [/\bmust[A-Z]\w*/, 'check..., expect..., require...'],
  [/\b(?:promisable|foreign|returning)(?:Bytes|_bytes)\b/, 'available, otherProcesses, releasing'],
  [/\bwho(?:m)?ever\b/i, 'the client, the reader, the caller'],
];

const files = projectFiles().filter(
  (path) =>
    /^(src|web|python|test|bench|docs|examples|deploy|README\.md|SECURITY\.md)/.test(path) &&
    /\.(ts|tsx|py|mjs|md|yml)$/.test(path) &&
    !path.startsWith('bench/results/') &&
    path !== 'test/house-words.test.ts',
);

function found(pattern: RegExp): readonly string[] {
  return files.flatMap((path) =>
    readFileSync(root + path, 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
      ),
  );
}

describe('plain words', () => {
  it('are looked for in the whole project', () => {
    expect(files.length).toBeGreaterThan(1200);
  });

  it.each(names)('no name is %s: write %s', (pattern) => {
    expect(found(pattern)).toEqual([]);
  });
});
