import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

const sources = projectFiles().filter(
  (path) =>
    /^(src|web\/src|web\/snapshot|python\/plimsoll(_trace)?)\/.*\.(ts|tsx|py)$/.test(path) &&
    !/\.test\.tsx?$/.test(path),
);

/** A figure or a rule, and the places that may write it down: one in each language. */
const rules: readonly (readonly [string, RegExp, readonly string[]])[] = [
  [
    'the load line',
    /load_?line\w* = 0?\.\d/i,
    ['python/plimsoll/memory/load_line.py', 'src/device/load-line.ts'],
  ],
  [
    'what an estimate needs for sure',
    /function (?:sureBytes|bytesToReserve)\b/,
    ['src/plan/fit/fit.ts'],
  ],
  ['the states of a job', /\bjobStates = /, ['src/jobs/types.ts']],
  [
    'the smaller microbatch after a failure',
    /^(?:export function smallerMicrobatch|def smaller)\b/m,
    ['python/plimsoll/recovery/rules/sizes.py', 'src/batches/sizes/smaller-microbatch.ts'],
  ],
  [
    'which Node runs the command',
    /["']runtime["'], ["']node["']/,
    ['python/plimsoll/asking/command.py'],
  ],
];

describe('one definition of each rule', () => {
  it.each(rules)('%s', (_, pattern, places) => {
    const found = sources.filter((path) => pattern.test(readFileSync(root + path, 'utf8')));
    expect(found.toSorted()).toEqual(places);
  });
});
