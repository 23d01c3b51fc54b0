import type { StackTable } from './tables/stack-table.js';

/** One frame of a call stack. */
export interface Frame {
  readonly name: string;
  readonly file: string;
  readonly line: number;
}

/** The state when the snapshot was taken. */
export interface Snapshot {
  /** The pickle's protocol. */
  readonly protocol: number;
  readonly devices: readonly DeviceSnapshot[];
  readonly settings: RecordedSettings;
  readonly annotations: readonly Annotation[];
  readonly names: Names;
}

/** Everything of one device. */
export interface DeviceSnapshot {
  readonly device: number;
  readonly segments: readonly Segment[];
  readonly events: Events;
}

export interface Segment {
  /** Number of the address; `Names.address` gives it whole. */
  readonly address: number;
  readonly totalBytes: number;
  readonly allocatedBytes: number;
  readonly activeBytes: number;
  readonly requestedBytes: number;
  /** Number of the stream; 0 is the default one. */
  readonly stream: number;
  readonly type: 'small' | 'large' | 'unknown';
  /** `0,0` is the default pool; others belong to CUDA graphs and to `torch.cuda.MemPool`. */
  readonly pool: string;
  readonly expandable: boolean;
  readonly stack: number;
  readonly blocks: readonly Block[];
}

export interface Block {
  readonly address: number;
  readonly bytes: number;
  readonly requestedBytes: number;
  readonly state: 'allocated' | 'pending-free' | 'inactive';
  readonly stack: number;
}

/**
 * The actions of the allocator, oldest first, in columns: event `i` is row `order[i]` of each, or
 * row `first + i` if there is no order.
 */
export interface Events {
  readonly length: number;
  readonly first: number;
  readonly order: Int32Array | undefined;
  /** One of `action`. */
  readonly action: Uint8Array;
  /** Number of the address; -1: none. */
  readonly address: Int32Array;
  /** The requested bytes; for segments, their size. */
  readonly bytes: Float64Array;
  readonly timeUs: Float64Array;
  readonly stream: Uint16Array;
  readonly stack: Int32Array;
  /** By row: what the device had left when it ran out of memory. */
  readonly deviceFree: ReadonlyMap<number, number>;
}

export interface Annotation {
  readonly name: string;
  readonly stage: string;
  readonly device: number;
  readonly timeUs: number;
}

export interface RecordedSettings {
  /** `PYTORCH_CUDA_ALLOC_CONF` as the process had it; empty: nothing set, or not recorded. */
  readonly allocConf: string;
  readonly expandableSegments: boolean;
  /** Bytes; -1: unlimited. */
  readonly maxSplitBytes: number;
  readonly garbageCollectionThreshold: number;
  readonly roundupDivisions: readonly number[];
}

/** Numbers of the columns in words. */
export interface Names {
  readonly stacks: StackTable;
  readonly addressCount: number;
  /** Bytes above the lowest address of the snapshot, exact. */
  readonly offset: Float64Array;
  /** The whole address, exact. */
  address(number: number): bigint;
  stream(number: number): string;
  frame(number: number): Frame;
  /** The frames of a stack, the innermost first. */
  stack(number: number): readonly Frame[];
}

/** The row of an event in the columns. */
export function rowOf(events: Events, index: number): number {
  return events.order === undefined ? events.first + index : (events.order[index] ?? 0);
}
