// The counts of tests in what the test runners wrote; a report that is not there is one failure.
import { readFileSync } from 'node:fs';

/** @typedef {{ passed: number, failed: number, leftOut: string[] }} Counts */

/** @type {Counts} */
const unread = { passed: 0, failed: 1, leftOut: [] };

/** @returns {Counts} */
export function vitestCounts(file) {
  const report = readReport(file);
  if (report === undefined) return unread;
  const { numPassedTests, numFailedTests, testResults } = report;
  // A file that breaks outside of its tests, such as in a hook, counts as one failure.
  const broken = testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  ).length;
  return { passed: numPassedTests, failed: numFailedTests + broken, leftOut: [] };
}

/** @returns {Counts} */
export function pythonCounts(file) {
  return readReport(file) ?? unread;
}

function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
