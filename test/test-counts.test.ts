import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Counts, closingLines, readCounts } from '../scripts/test-counts.mjs';
import { cleanEnvironment } from './cli/command.js';
import { root } from './support/project-files.js';

/** In two parts, so that vitest does not read it as the tag of this file. */
const fileTag = ['@module', 'tag rest'].join('-');

const files = {
  'passes.test.ts': `
    import { expect, it } from 'vitest';
    it('is true', () => expect(1).toBe(1));
    it('is long', { tags: 'rest' }, () => expect(1).toBe(1));`,
  'all-rest.test.ts': `
    // ${fileTag}
    import { it } from 'vitest';
    it('is in the second tier', () => {});
    it('is there and not ready', { skip: true }, () => {});`,
  'fails.test.ts': `
    import { expect, it } from 'vitest';
    it('is false', () => expect(1).toBe(2));
    it('is true', () => expect(1).toBe(1));`,
  'broken-hook.test.ts': `
    import { beforeAll, describe, it } from 'vitest';
    describe('a group', () => {
      beforeAll(() => { throw new Error('broken'); });
      it('never runs', () => {});
      describe('and within', () => { it('never runs either', () => {}); });
    });`,
  'broken-import.test.ts': `import './nowhere.js';`,
  'left-out.test.ts': `
    import { describe, it } from 'vitest';
    describe('a disk', { skip: true, meta: { leftOut: 'needs a disk' } }, () => {
      it('runs full', () => {});
    });
    it('asks first', (test) => test.skip('it is Monday'));
    it.skip('says nothing', () => {});
    it.todo('comes later');`,
};

/** A real run of vitest over these files, as `npm test` starts it. */
function run(folder: string, words: readonly string[]): Counts {
  const report = join(folder, 'report.json');
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const reporter = `--reporter=${join(root, 'scripts/test-counts.mjs')}`;
  const asked = ['run', '--root', folder, reporter, `--outputFile=${report}`, ...words];
  const { stderr } = spawnSync(process.execPath, [vitest, ...asked], {
    cwd: folder,
    env: cleanEnvironment({}),
    encoding: 'utf8',
  });
  const counts = readCounts(report);
  if (counts.files.length === 0) throw new Error(stderr);
  return counts;
}

describe('the counts of vitest', () => {
  let first: Counts;
  let all: Counts;
  let rest: Counts;
  beforeAll(() => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-counts-'));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(join(root, 'node_modules/vitest'), join(folder, 'node_modules/vitest'));
    const config = `export default { test: { tags: [{ name: 'rest' }], isolate: false, maxWorkers: 1 } };`;
    writeFileSync(join(folder, 'vitest.config.js'), config);
    first = run(folder, ['--tags-filter=!rest']);
    all = run(folder, []);
    rest = run(folder, ['--tags-filter=rest']);
    return () => rmSync(folder, { recursive: true });
  });

  it('take a file that breaks in a hook, or before its first test, as one failure', () => {
    expect([first.passed, first.failed]).toEqual([2, 3]);
    expect([all.passed, all.failed]).toEqual([4, 3]);
  });

  it('name each test that was left out, with the reason', () => {
    expect(first.leftOut.toSorted()).toEqual([
      'left-out.test.ts > a disk > runs full: needs a disk',
      'left-out.test.ts > asks first: it is Monday',
      'left-out.test.ts > comes later: it is not written yet',
      'left-out.test.ts > says nothing: it gives no reason',
    ]);
    const further = all.leftOut.filter((line) => !first.leftOut.includes(line));
    expect(further).toEqual(['all-rest.test.ts > is there and not ready: it gives no reason']);
  });

  it('keep those of the second tier apart', () => {
    expect([first.otherTier, all.otherTier]).toEqual([3, 0]);
    expect(first.passed + rest.passed).toBe(all.passed);
    expect(rest.leftOut).toEqual(['all-rest.test.ts > is there and not ready: it gives no reason']);
  });

  it('have the seconds of each file', () => {
    expect(first.files.map(({ name }) => name).toSorted()).toEqual(Object.keys(files).toSorted());
    for (const { seconds } of first.files) expect(seconds).toBeGreaterThanOrEqual(0);
  });
});

describe('the counts of a report', () => {
  it('that is not there are one failure', () => {
    expect(readCounts('/nowhere/report.json')).toMatchObject({ passed: 0, failed: 1, leftOut: [] });
  });

  it('that names no files, or no other tier, are those it has', () => {
    const folder = mkdtempSync(join(tmpdir(), 'plimsoll-counts-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'report.json');
    writeFileSync(file, JSON.stringify({ passed: 3, failed: 1, leftOut: ['a.b: why'] }));
    expect(readCounts(file)).toEqual({
      passed: 3,
      failed: 1,
      leftOut: ['a.b: why'],
      otherTier: 0,
      files: [],
    });
  });
});

describe('the last lines of a run', () => {
  const typescript: Counts = {
    passed: 10,
    failed: 0,
    leftOut: ['b.test.ts > b: needs Linux'],
    otherTier: 2,
    files: Array.from({ length: 9 }, (_, at) => ({ name: `${at}.test.ts`, seconds: at })),
  };
  const python: Counts = {
    passed: 5,
    failed: 0,
    leftOut: ['a.b: needs a GPU'],
    otherTier: 4,
    files: [
      { name: 'test_long', seconds: 75.4 },
      { name: 'test_short', seconds: 0.1 },
    ],
  };
  const given = { parts: [{ name: 'lint', seconds: 3 }], seconds: 130, failed: [], seed: 7 };

  it('name what was left out, the slowest of both languages, each part and the seed', () => {
    expect(closingLines({ ...given, counts: [typescript, python] })).toEqual([
      'Left out: a.b: needs a GPU',
      'Left out: b.test.ts > b: needs Linux',
      '6 tests belong to the other tier.',
      'Slowest files: test_long 1 min 15 s, 8.test.ts 8 s, 7.test.ts 7 s, 6.test.ts 6 s, 5.test.ts 5 s, 4.test.ts 4 s, 3.test.ts 3 s, 2.test.ts 2 s, 1.test.ts 1 s, test_short 0 s.',
      'Time of each part: lint 3 s; in all 2 min 10 s.',
      'Order of files and tests: PLIMSOLL_TEST_SEED=7.',
      'All 1 checks passed: lint.',
      '15 passed, 0 failed, 2 skipped',
    ]);
  });

  it('count alone where nothing was left out, and name the checks that failed', () => {
    const counts = [{ ...typescript, failed: 1, leftOut: [], otherTier: 0 }];
    const lines = closingLines({ ...given, counts, failed: ['tests'] });
    expect(lines.join('\n')).not.toMatch(/Left out|test:all/);
    expect(lines.slice(-2)).toEqual([
      'Checks that failed: tests. Their output is above.',
      '10 passed, 1 failed',
    ]);
  });
});
