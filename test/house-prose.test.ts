import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

/** Sentences for people. A program that looks into one breaks when its words change. */
const sentence = String.raw`(?:reason|why|fact|next)`;
const looksInto = [
  new RegExp(
    String.raw`\.${sentence}\??\.(?:match|matchAll|includes|startsWith|endsWith|search|replace|replaceAll|split|indexOf)\(`,
  ),
  new RegExp(String.raw`\.(?:test|exec)\((?:[\w?]+\.)*${sentence}\)`),
];

const sources = projectFiles().filter(
  (path) =>
    /^(src|web\/src|web\/snapshot|bench|scripts)\/.*\.(ts|tsx|mjs)$/.test(path) &&
    !/\.test\.tsx?$/.test(path),
);

describe('a sentence for people', () => {
  it('is never parsed: codes and fields carry what programs need', () => {
    expect(sources.length).toBeGreaterThan(500);
    const found = sources.flatMap((path) =>
      readFileSync(root + path, 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          looksInto.some((pattern) => pattern.test(line)) ? [`${path}:${index + 1}`] : [],
        ),
    );
    expect(found).toEqual([]);
  });

  it.each([
    ["if (job.reason.includes('memory')) {", true],
    ['/memory/i.test(job.reason)', true],
    ["error.fact.replace(/x/, '')", true],
    ['text(job.reason)', false],
    ["words.includes('a reason')", false],
  ])('%s: parsed %s', (line, isParsed) => {
    expect(looksInto.some((pattern) => pattern.test(line))).toBe(isParsed);
  });
});
