import type { RowList } from './row-list.js';

/** A segment as the file has it; strings, stacks, addresses and pools by their numbers. */
export interface SegmentRow {
  readonly device: number;
  readonly address: number;
  readonly totalBytes: number;
  readonly allocatedBytes: number;
  readonly activeBytes: number;
  readonly requestedBytes: number;
  readonly stream: number;
  readonly type: number;
  readonly pool: number;
  readonly expandable: boolean;
  readonly stack: number;
  readonly blocks: RowList | undefined;
}

/** A mark of a program or a profiler on the time line: an optimizer's step, say. */
export interface AnnotationRow {
  readonly name: number;
  readonly stage: number;
  readonly device: number;
  readonly timeUs: number;
}
