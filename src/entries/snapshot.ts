/**
 * PyTorch's memory snapshots: read without running them, and what they show.
 *
 * @example
 * import { analyseSnapshot, readSnapshot } from 'plimsoll/snapshot';
 *
 * const { leaks } = analyseSnapshot(await readSnapshot('snapshot.pickle'));
 *
 * @module
 */

export {
  type AnalyseOptions,
  analyseSnapshot,
  type SnapshotAnalysis,
} from '../snapshot/analyse.js';
export { snapshotDocument } from '../snapshot/document.js';
export { parseSnapshot, readSnapshot } from '../snapshot/read-snapshot.js';
export type { DeviceSnapshot, Frame, Segment, Snapshot } from '../snapshot/snapshot.js';
