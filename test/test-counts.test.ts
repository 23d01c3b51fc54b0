import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { vitestCounts } from '../scripts/test-counts.mjs';

function counted(report: unknown) {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-counts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'report.json');
  writeFileSync(file, JSON.stringify(report));
  return vitestCounts(file);
}

const test = (status: string) => ({ status });

it('counts a file that broke in a hook, or before its first test, as failed', () => {
  const report = {
    numPassedTests: 2,
    numFailedTests: 1,
    testResults: [
      { status: 'passed', assertionResults: [test('passed'), test('passed')] },
      { status: 'failed', assertionResults: [test('failed'), test('pending')] },
      { status: 'failed', assertionResults: [test('skipped'), test('skipped')] },
      { status: 'failed', assertionResults: [] },
    ],
  };
  expect(counted(report)).toEqual({ passed: 2, failed: 3, leftOut: [] });
});

it('counts a report that is not there as failed', () => {
  expect(vitestCounts('/nowhere/report.json')).toEqual({ passed: 0, failed: 1, leftOut: [] });
});
