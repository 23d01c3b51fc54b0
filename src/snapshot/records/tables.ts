import type { TupleTable } from '../tables/tuple-table.js';
import type { BlockColumns } from './block-columns.js';
import type { EventColumns } from './event-columns.js';
import type { RowList } from './row-list.js';
import type { AnnotationRow, SegmentRow } from './rows.js';

/** Where records go, and where what they refer to is found. */
export interface RecordTables {
  readonly events: EventColumns;
  readonly frames: TupleTable;
  readonly blocks: BlockColumns;
  readonly segments: SegmentRow[];
  readonly annotations: AnnotationRow[];
  readonly addresses: TupleTable;
  readonly streams: TupleTable;
  /** The stack that a value of the key `frames` stands for; 0 when it is empty. */
  stackOf(tag: number): number;
  /** The rows that a value stands for, when they are of this shape. */
  rowsOf(tag: number | undefined, shape: number): RowList | undefined;
}
