import { readOwnDocument } from '../../files/own-file.js';
import { MiB } from '../../units/bytes.js';
import { outcomes, type RunReport } from '../types.js';
import { isAttempt } from './journal-entry.js';
import { damagedRun } from './run-failures.js';
import { isText, isTexts } from './run-plan.js';

/** Thousands of rungs, each with its command, take less. */
const maxBytes = 256 * MiB;

/** The report that a run left when it ended. */
export function readRunReport(path: string): RunReport {
  const report = readOwnDocument(path, { schema: 1, maxBytes });
  if (report !== undefined && isReport(report)) return report;
  throw damagedRun(path);
}

type Document = Readonly<Record<string, unknown>>;

function isReport(report: Document): report is Document & RunReport {
  const { attempts, exitCode } = report;
  return (
    isText(report['id']) &&
    isTexts(report['command']) &&
    isTexts(report['notes']) &&
    outcomes.some((outcome) => outcome === report['outcome']) &&
    (exitCode === 'unknown' || typeof exitCode === 'number') &&
    Array.isArray(attempts) &&
    attempts.every(isAttempt)
  );
}
