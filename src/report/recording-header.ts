/** A column of numbers in the packed data: where it begins, and what its numbers are. */
export interface PackedColumn {
  readonly kind: 'u16' | 'u32' | 'f64';
  readonly start: number;
  readonly length: number;
}

/** A frame: function, `file:line`, and 1 where it belongs to the user's own program. */
export type PageFrame = readonly [name: string, place: string, own: 0 | 1];

export interface SegmentKind {
  /** Pool and stream. */
  readonly words: string;
  /** A page of an expandable segment. */
  readonly pages: boolean;
}

/**
 * What stands before the columns in the packed data of a page. Tick 0 is before the first event;
 * tick `1 + n` is after event `n`, or after a group of events where there are too many of them.
 */
export interface RecordingHeader {
  readonly ticks: number;
  /** Events in a tick. */
  readonly group: number;
  readonly events: number;
  /** Allocations that are left out: the smallest, and those shorter than a tick. */
  readonly omitted: number;
  /** The bytes that every allocation has that is left out at most. */
  readonly omittedBelowBytes: number;
  readonly marks: {
    readonly peak: number;
    readonly outOfMemory: readonly number[];
    readonly steps: readonly number[];
  };
  /** Where stretches of addresses begin: place in units of 512 bytes, and the address itself. */
  readonly regions: readonly (readonly [place: number, address: string])[];
  /** What kinds of segments there are; the column `segmentKind` has their numbers. */
  readonly kinds: readonly SegmentKind[];
  /** Who held memory at the snapshot and at the peak: stack and bytes by turns. */
  readonly holdersNow: readonly number[];
  readonly holdersPeak: readonly number[];
  readonly frames: readonly PageFrame[];
  /** Frames of each stack, the innermost first. Number 0 has none. */
  readonly stacks: readonly (readonly number[])[];
  /** Each stack in a few words. */
  readonly titles: readonly string[];
  readonly columns: Readonly<Record<ColumnName, PackedColumn>>;
}

/**
 * `born`: tick after the previous one's; `span`: ticks that it lived; `units`: size in 512 bytes;
 * `pendingLife` and `pendingUntil`: freed, but still in use by a stream until then; `timeTick` and
 * `timeSecond`: between these points time goes on evenly; `allocated`: the most in each of a number
 * of even parts, exact also where allocations are left out.
 */
export type ColumnName =
  | 'born'
  | 'span'
  | 'units'
  | 'stack'
  | 'place'
  | 'pendingLife'
  | 'pendingUntil'
  | 'segmentBorn'
  | 'segmentEnd'
  | 'segmentPlace'
  | 'segmentUnits'
  | 'segmentKind'
  | 'timeTick'
  | 'timeSecond'
  | 'allocated';
