import { checkArguments, checkOptions, madeBy, whole } from '../units/arguments.js';
import type { SnapshotAnalysis } from './analyse.js';
import { byFile, byModule, compareHolders, type Holder } from './answer/holders.js';
import { type Names, rowOf, type Segment } from './snapshot.js';

/** Modules and files beyond these hold next to nothing. */
const maxPlaces = 20;

/**
 * The answer as one JSON document, by contract. Addresses are text: they may pass 2^53.
 *
 * @example
 * JSON.stringify(snapshotDocument(analyseSnapshot(snapshot), { top: 20 }));
 */
export function snapshotDocument(analysis: SnapshotAnalysis, options: { readonly top: number }) {
  checkArguments(
    'snapshotDocument',
    { analysis },
    { analysis: madeBy('analyseSnapshot', 'figures') },
  );
  checkOptions('snapshotDocument', options, { top: whole(0) }, ['top']);
  const { snapshot, device, figures, history, fragmentation, leaks, holders } = analysis;
  const { names } = snapshot;
  const recorded = device.events.length > 0;
  return {
    device: device.device,
    ...figures,
    fragmentation: fragmentation.share,
    peakAllocatedBytes: recorded ? history.peakAllocated.allocatedBytes : 'unknown',
    peakReservedBytes: recorded ? history.peakReserved.reservedBytes : 'unknown',
    events: device.events.length,
    recording: recordingOf(analysis),
    leaks: leaks.leaks.map(({ stack, ...leak }) => ({ ...leak, stack: names.stack(stack) })),
    minorLeaks: leaks.minor,
    steps: { count: leaks.steps.starts.length, basis: leaks.steps.basis },
    outOfMemory: analysis.outOfMemory.map(({ holders: then, stack, ...event }) => ({
      ...event,
      stack: names.stack(stack),
      holders: then.map((holder) => withFrames(holder, names)),
    })),
    top: holders.slice(0, options.top).map((holder) => withFrames(holder, names)),
    topAtPeak: analysis.peakHolders
      .slice(0, options.top)
      .map((holder) => withFrames(holder, names)),
    modules: byModule(holders, names).slice(0, maxPlaces),
    files: byFile(holders, names).slice(0, maxPlaces),
    pools: fragmentation.pools,
    stuckBytes: fragmentation.stuckBytes,
    releasableBytes: fragmentation.releasableBytes,
    whatIf: analysis.whatIfs ?? 'unknown',
    settings: snapshot.settings,
    segments: device.segments.map((segment) => segmentDocument(segment, names)),
  };
}

/** The same for two snapshots: what changed from `against` to `analysis`. */
export function againstDocument(
  analysis: SnapshotAnalysis,
  against: SnapshotAnalysis,
  options: { readonly top: number },
) {
  const change = (key: keyof SnapshotAnalysis['figures']) =>
    analysis.figures[key] - against.figures[key];
  return {
    allocatedBytes: change('allocatedBytes'),
    reservedBytes: change('reservedBytes'),
    activeBytes: change('activeBytes'),
    inactiveSplitBytes: change('inactiveSplitBytes'),
    fragmentation: analysis.fragmentation.share - against.fragmentation.share,
    stacks: compareHolders(
      { holders: analysis.holders, names: analysis.snapshot.names },
      { holders: against.holders, names: against.snapshot.names },
    )
      .slice(0, options.top)
      .map(({ frames, bytes, againstBytes, count, againstCount }) => ({
        bytes,
        againstBytes,
        count,
        againstCount,
        stack: frames,
      })),
  };
}

/** How much of the run the recording shows. */
export function recordingOf({ device, history, snapshot }: SnapshotAnalysis) {
  const { events } = device;
  const timeAt = (index: number) => events.timeUs[rowOf(events, index)] ?? 0;
  return {
    seconds: events.length > 0 ? (timeAt(events.length - 1) - timeAt(0)) / 1e6 : 0,
    startedEpochMs: events.length > 0 ? Math.round(timeAt(0) / 1000) : 'unknown',
    allocatedAtStartBytes: history.start.allocatedBytes,
    driftBytes: history.driftBytes,
    stacks: snapshot.names.stacks.length,
  };
}

function withFrames({ stack, bytes, count }: Holder, names: Names) {
  return { bytes, count, stack: names.stack(stack) };
}

function segmentDocument(segment: Segment, names: Names) {
  const free = segment.blocks.filter(({ state }) => state === 'inactive');
  return {
    address: `0x${names.address(segment.address).toString(16)}`,
    totalBytes: segment.totalBytes,
    allocatedBytes: segment.allocatedBytes,
    activeBytes: segment.activeBytes,
    stream: names.stream(segment.stream),
    type: segment.type,
    pool: segment.pool,
    expandable: segment.expandable,
    blocks: segment.blocks.length,
    largestFreeBytes: free.reduce((most, { bytes }) => Math.max(most, bytes), 0),
  };
}
