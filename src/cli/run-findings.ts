import { Failure } from '../failure.js';
import { snapshotFindings } from '../report/snapshot-findings.js';
import type { Attempt, AttemptSnapshot, RunReport } from '../run/contract.js';
import { analyseSnapshot } from '../snapshot/analyse.js';
import { readSnapshot } from '../snapshot/read-snapshot.js';

/** Reads the snapshots that its attempts left, and adds what they tell. */
export async function withFindings(report: RunReport): Promise<RunReport> {
  const attempts: Attempt[] = [];
  // One after another: each may be large.
  for (const attempt of report.attempts) {
    attempts.push({ ...attempt, snapshot: await explained(attempt.snapshot) });
  }
  return { ...report, attempts };
}

async function explained(snapshot: AttemptSnapshot | null): Promise<AttemptSnapshot | null> {
  // Without a GPU the SDK writes its own short account, for people to read.
  if (snapshot === null || !snapshot.file.endsWith('.pickle')) return snapshot;
  try {
    const analysis = analyseSnapshot(await readSnapshot(snapshot.file));
    return { ...snapshot, findings: snapshotFindings(analysis).map(({ text }) => text) };
  } catch (error) {
    // The report of a run must not fail for what lies beside it.
    if (!(error instanceof Failure)) throw error;
    return { ...snapshot, findings: [`It could not be read: ${error.message}`] };
  }
}
