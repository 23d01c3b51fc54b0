// The counts of both test runners, in one form that `scripts/python-tests.py` writes, too. For vitest this
// file is the reporter that writes them: `--reporter=scripts/test-counts.mjs --outputFile=FILE`.
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * `leftOut` has a line for each test that could not run here, with its name and the reason; `otherTier` counts
 * those of the tier that was not asked for; `files` has the seconds of each file.
 *
 * @typedef {{ passed: number, failed: number, leftOut: string[], otherTier: number, files: { name: string, seconds: number }[] }} Counts
 */

/** Tests that only `npm run test:all` runs have this tag. */
export const restTag = 'rest';

/** @returns {Counts} what a runner wrote; a report that is not there is one failure */
export function readCounts(file) {
  try {
    return { otherTier: 0, files: [], ...JSON.parse(readFileSync(file, 'utf8')) };
  } catch {
    return { passed: 0, failed: 1, leftOut: [], otherTier: 0, files: [] };
  }
}

/**
 * The lines that close a run: the tests that did not run, by name, the slowest files, the time of each part,
 * and in the last line the counts of tests, for programs that read it.
 *
 * @returns {string[]}
 */
export function closingLines({ counts, parts, seconds, failed, seed }) {
  const sum = (key) => counts.reduce((total, each) => total + each[key], 0);
  const leftOut = counts.flatMap((each) => each.leftOut).toSorted();
  const slowest = counts
    .flatMap(({ files }) => files)
    .toSorted((one, other) => other.seconds - one.seconds)
    .slice(0, 10);
  const names = parts.map(({ name }) => name);
  return [
    ...leftOut.map((line) => `Left out: ${line}`),
    ...(sum('otherTier') === 0 ? [] : [`${sum('otherTier')} tests belong to the other tier.`]),
    `Slowest files: ${slowest.map(timed).join(', ')}.`,
    `Time of each part: ${parts.map(timed).join(', ')}; in all ${timeOf(seconds)}.`,
    `Order of files and tests: PLIMSOLL_TEST_SEED=${seed}.`,
    failed.length === 0
      ? `All ${names.length} checks passed: ${names.join(', ')}.`
      : `Checks that failed: ${failed.join(', ')}. Their output is above.`,
    `${sum('passed')} passed, ${sum('failed')} failed${leftOut.length === 0 ? '' : `, ${leftOut.length} skipped`}`,
  ];
}

function timed({ name, seconds }) {
  return `${name} ${timeOf(seconds)}`;
}

function timeOf(seconds) {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

// vitest takes the reporter that a file exports as its default.
// oxlint-disable-next-line import/no-default-export
export default class CountsReporter {
  #vitest;

  onInit(vitest) {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules, unhandledErrors) {
    const { outputFile, tagsFilter = [] } = this.#vitest.config;
    const counts = countsOf(modules, tagsFilter[0]);
    counts.failed += unhandledErrors.length;
    writeFileSync(outputFile, JSON.stringify(counts));
  }
}

/** @returns {Counts} */
function countsOf(modules, filter) {
  const isOther = ({ tags }) =>
    filter !== undefined && (filter === restTag) !== tags.includes(restTag);
  const counts = { passed: 0, failed: 0, leftOut: [], otherTier: 0, files: [] };
  for (const module of modules) {
    const tests = [...module.children.allTests()];
    const states = tests.map((test) => test.result().state);
    counts.passed += states.filter((state) => state === 'passed').length;
    const failed = states.filter((state) => state === 'failed').length;
    // A file that breaks outside of its tests, such as in a hook, counts as one failure.
    counts.failed += failed === 0 && module.state() === 'failed' ? 1 : failed;
    for (const test of tests.filter((_, at) => states[at] === 'skipped')) {
      if (isOther(test)) counts.otherTier += 1;
      else if (!isBroken(test.parent)) counts.leftOut.push(`${nameOf(test)}: ${reasonOf(test)}`);
    }
    const { setupDuration, collectDuration, duration } = module.diagnostic();
    const seconds = (setupDuration + collectDuration + duration) / 1000;
    counts.files.push({ name: module.relativeModuleId, seconds });
  }
  return counts;
}

/** Whether a group that this belongs to failed in a hook, which leaves out its tests. */
function isBroken(group) {
  return group.errors().length > 0 || (group.type === 'suite' && isBroken(group.parent));
}

function nameOf(test) {
  return `${test.module.relativeModuleId} > ${test.fullName}`;
}

function reasonOf(test) {
  if (test.options.mode === 'todo') return 'it is not written yet';
  return test.result().note ?? test.meta().leftOut ?? 'it gives no reason';
}
