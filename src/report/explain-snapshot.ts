import { Failure } from '../failure.js';
import type { AttemptSnapshot } from '../run/types.js';
import { analyseSnapshot } from '../snapshot/analyse.js';
import { readSnapshot } from '../snapshot/read-snapshot.js';
import { snapshotFindings } from './snapshot-findings.js';

/** Reads the snapshot that an attempt left behind, and adds what it tells. */
export async function explainSnapshot(snapshot: AttemptSnapshot): Promise<AttemptSnapshot> {
  // Without a GPU the SDK writes its own short account, for people to read.
  if (!snapshot.file.endsWith('.pickle')) return snapshot;
  try {
    const analysis = analyseSnapshot(await readSnapshot(snapshot.file));
    return { ...snapshot, findings: snapshotFindings(analysis).map(({ text }) => text) };
  } catch (error) {
    // What lies beside a run must not make it fail.
    if (!(error instanceof Failure)) throw error;
    return { ...snapshot, findings: [`It could not be read: ${error.message}`] };
  }
}
