import type { Known } from '../units/known.js';
import type {
  Attempt,
  AttemptBuffers,
  ClimbedRung,
  EnforcedLimit,
  MeasuredSize,
  MemoryHolders,
  MemoryPoint,
  OutOfMemory,
  PeakSource,
  ProgressPoint,
  RunSettings,
} from './types.js';

/** An attempt that has ended, as it stands in the report. */
export function describeAttempt(
  start: {
    readonly number: number;
    readonly settings: RunSettings;
    readonly command: readonly string[];
    readonly startedAt: string;
    readonly limit: EnforcedLimit;
  },
  end: {
    readonly exitCode: Known<number>;
    readonly outOfMemory: OutOfMemory | null;
    readonly rungs: readonly ClimbedRung[];
    readonly peak: { readonly bytes: Known<number>; readonly from: PeakSource };
    readonly snapshot: string | null;
    readonly progress: readonly ProgressPoint[];
    readonly memory: readonly MemoryPoint[];
    readonly holders: MemoryHolders | undefined;
    readonly lastLines: readonly string[];
    readonly buffers: AttemptBuffers | undefined;
    readonly measured: readonly MeasuredSize[];
    readonly launchers: readonly string[];
    readonly endedMs: number;
  },
): Attempt {
  return {
    number: start.number,
    settings: start.settings,
    command: start.command,
    startedAt: start.startedAt,
    endedAt: new Date(Math.round(end.endedMs)).toISOString(),
    exitCode: end.exitCode,
    outOfMemory: end.outOfMemory,
    rungs: end.rungs,
    peakBytes: end.peak.bytes,
    source: 'measured',
    peakFrom: end.peak.from,
    limit: start.limit,
    snapshot: end.snapshot === null ? null : { file: end.snapshot, findings: [] },
    ...(end.outOfMemory !== null && {
      memory: end.memory,
      ...(end.holders !== undefined && { holders: end.holders }),
      lastLines: end.lastLines,
      ...(end.measured.length > 0 && { measuredSizes: end.measured }),
    }),
    ...(end.progress.length === 0 ? {} : { progress: end.progress }),
    ...(end.buffers === undefined ? {} : { buffers: end.buffers }),
    ...(end.launchers.length === 0 ? {} : { launchers: end.launchers }),
  };
}
