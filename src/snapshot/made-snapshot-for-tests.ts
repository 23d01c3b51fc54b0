import { fileURLToPath } from 'node:url';
import { type Plain, pickle, Tuple } from './pickle-writer-for-tests.js';
import { parseSnapshot, readSnapshot } from './read-snapshot.js';
import type { Snapshot } from './snapshot.js';

const MiB = 1024 ** 2;

export interface MadeEvent {
  readonly action: string;
  readonly addr?: number | bigint;
  readonly size: number;
  readonly stack?: readonly Plain[];
  readonly stream?: number;
  readonly free?: number;
}

export interface MadeBlock {
  readonly size: number;
  readonly state?: string;
  readonly stack?: readonly Plain[];
}

export interface MadeSegment {
  readonly address: number | bigint;
  readonly blocks: readonly MadeBlock[];
  readonly type?: string;
  readonly stream?: number;
  readonly pool?: number;
  readonly expandable?: boolean;
}

/** Frames of a program: the innermost first, `file:line function`. */
export function frames(...texts: readonly string[]): readonly Plain[] {
  return texts.map((text) => {
    const [, filename = '', line = '0', name = ''] = /^(.*):(\d+) (.*)$/.exec(text) ?? [];
    return { name, filename, line: Number(line) };
  });
}

/** The dict that PyTorch would have pickled. */
export function snapshotDict(
  segments: readonly MadeSegment[],
  events: readonly MadeEvent[],
  settings: { readonly [key: string]: Plain } = {},
): { readonly [key: string]: Plain } {
  return {
    segments: segments.map(segmentDict),
    device_traces: [events.map(eventDict)],
    allocator_settings: { PYTORCH_CUDA_ALLOC_CONF: '', expandable_segments: false, ...settings },
    external_annotations: [],
  };
}

export function madeSnapshot(
  segments: readonly MadeSegment[],
  events: readonly MadeEvent[],
  settings?: { readonly [key: string]: Plain },
): Snapshot {
  return parseSnapshot(pickle(snapshotDict(segments, events, settings)));
}

function state(block: MadeBlock): string {
  return block.state ?? 'active_allocated';
}

function segmentDict(segment: MadeSegment): { readonly [key: string]: Plain } {
  const { blocks } = segment;
  const total = (keep: (block: MadeBlock) => boolean) =>
    blocks.filter(keep).reduce((sum, { size }) => sum + size, 0);
  let address = BigInt(segment.address);
  return {
    device: 0,
    address: segment.address,
    total_size: total(() => true),
    allocated_size: total((block) => state(block) === 'active_allocated'),
    active_size: total((block) => state(block) !== 'inactive'),
    requested_size: total((block) => state(block) === 'active_allocated'),
    stream: segment.stream ?? 0,
    segment_type: segment.type ?? (total(() => true) > 2 * MiB ? 'large' : 'small'),
    segment_pool_id: new Tuple(0, segment.pool ?? 0),
    is_expandable: segment.expandable ?? false,
    frames: [],
    blocks: blocks.map((block) => {
      const own = address;
      address += BigInt(block.size);
      return {
        address: own,
        size: block.size,
        requested_size: block.size,
        state: state(block),
        frames: block.stack ?? [],
      };
    }),
  };
}

function eventDict(event: MadeEvent, index: number): { readonly [key: string]: Plain } {
  return {
    action: event.action,
    ...(event.addr === undefined ? {} : { addr: event.addr }),
    ...(event.free === undefined ? {} : { device_free: event.free }),
    size: event.size,
    stream: event.stream ?? 0,
    time_us: 1_700_000_000_000_000 + index * 1000,
    compile_context: 'N/A',
    user_metadata: '',
    frames: event.stack ?? [],
  };
}

/** The figures that the recorded processes reported, in bytes. */
export const recordedTruth = {
  steady: {
    allocatedBytes: 1580356096,
    reservedBytes: 9378463744,
    peakAllocatedBytes: 8690289664,
    inactiveSplitBytes: 841854464,
    outOfMemory: 0,
  },
  leak: {
    allocatedBytes: 1955568128,
    reservedBytes: 7329546240,
    peakAllocatedBytes: 6686770176,
    inactiveSplitBytes: 894461440,
    outOfMemory: 0,
  },
  oom: {
    allocatedBytes: 533227520,
    reservedBytes: 4280287232,
    peakAllocatedBytes: 4224743424,
    inactiveSplitBytes: 56072192,
    outOfMemory: 1,
  },
} as const;

/** `first-forward` died before it could say anything of itself. */
export type RecordedName = keyof typeof recordedTruth | 'first-forward';
export const recordedNames = ['steady', 'leak', 'oom'] as const;

export function recordedPath(name: RecordedName): string {
  const url = new URL(`../../bench/truth/snapshots/${name}.pickle.xz`, import.meta.url);
  return fileURLToPath(url);
}

const read = new Map<RecordedName, Promise<Snapshot>>();

/** A snapshot of a real job; read once for all tests of a file. */
export async function recorded(name: RecordedName): Promise<Snapshot> {
  const known = read.get(name) ?? readSnapshot(recordedPath(name));
  read.set(name, known);
  return known;
}
