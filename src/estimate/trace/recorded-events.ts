import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { type EventStream, EventStreamBuilder } from './event-stream.js';

/** The requests of a real run to the caching allocator, and the peaks of that run. */
export interface RecordedRun {
  readonly id: string;
  readonly peakAllocatedBytes: number;
  readonly peakReservedBytes: number;
  readonly stream: EventStream;
  /** The segments the real allocator took (positive) and gave back (negative), in order. */
  readonly segments: readonly number[];
  /** Requests that ran out of memory, each at the number of the event that follows it. */
  readonly refused: readonly { readonly at: number; readonly bytes: number }[];
}

/** A recorded run has some ten thousand events; JSON above this size is something else. */
const largestText = 256 * MiB;

/**
 * Address space that cuBLAS and its kernels take when the first matrix product runs, just before
 * its workspace. The 64 MiB were seen in three snapshots. The other part was 2 MiB there (fp32);
 * under autocast to bf16, which loads other kernels, anything from 6 to 28 MiB explains the
 * recorded peak. It only decides between two equally good blocks.
 */
export const cublasAddresses = [8 * MiB, 64 * MiB] as const;
/** On Hopper; it stays allocated to the end, unlike a tensor of the same size. */
export const cublasWorkspace = 32 * MiB;

/**
 * Reads a recorded run: `{id, peak_allocated, peak_reserved, events}`, where an event is
 * `["alloc", id, bytes, ...]`, `["free", id]`, `["segment_alloc"|"segment_free", bytes]`,
 * `["oom", bytes]` or `["mark", phase]`. A free with id 0 belongs to something from before the
 * recording and is left out. At the mark `ready` the cache had been emptied and the peaks reset.
 */
export function parseRecordedRun(text: string): RecordedRun {
  if (text.length > largestText) refuse('it is longer than 256 MiB');
  const run = asObject(parseJson(text));
  const events = run['events'];
  if (!Array.isArray(events)) return refuse('it has no list "events"');
  const builder = new EventStreamBuilder();
  // One small segment was cached before the recording began.
  builder.free(builder.alloc(1));
  const workspace = findWorkspace(events);
  const slots = new Map<number, number>();
  const segments: number[] = [];
  const refused: { at: number; bytes: number }[] = [];
  for (const [at, event] of events.entries()) {
    if (!Array.isArray(event)) return refuse(`event ${at} is not a list`);
    const value: unknown = event[1];
    switch (event[0]) {
      case 'alloc':
        if (at === workspace) for (const bytes of cublasAddresses) builder.takeAddresses(bytes);
        slots.set(asCount(value, at), builder.alloc(asCount(event[2], at)));
        break;
      case 'free':
        freeOne(builder, slots, asCount(value, at), at);
        break;
      case 'segment_alloc':
        segments.push(asCount(value, at));
        break;
      case 'segment_free':
        segments.push(-asCount(value, at));
        break;
      case 'mark':
        builder.mark(String(value));
        if (value === 'ready') {
          builder.emptyCache();
          builder.resetPeaks();
        }
        break;
      case 'oom':
        refused.push({ at: builder.length, bytes: asCount(value, at) });
        break;
      default:
        return refuse(`event ${at} is of an unknown kind`);
    }
  }
  return {
    id: String(run['id']),
    peakAllocatedBytes: asCount(run['peak_allocated'], 'peak_allocated'),
    peakReservedBytes: asCount(run['peak_reserved'], 'peak_reserved'),
    stream: builder.finish(),
    segments,
    refused,
  };
}

/** The first workspace of cuBLAS: made after the model was built, never freed. */
function findWorkspace(events: readonly unknown[]): number {
  const freed = new Set<unknown>();
  for (const event of events) if (Array.isArray(event) && event[0] === 'free') freed.add(event[1]);
  const ready = events.findIndex((event) => Array.isArray(event) && event[1] === 'ready');
  return events.findIndex(
    (event, at) =>
      at > ready && Array.isArray(event) && event[2] === cublasWorkspace && !freed.has(event[1]),
  );
}

function freeOne(
  builder: EventStreamBuilder,
  slots: Map<number, number>,
  id: number,
  at: number,
): void {
  if (id === 0) return;
  const slot = slots.get(id);
  if (slot === undefined) return refuse(`event ${at} frees ${id}, which is not allocated`);
  slots.delete(id);
  builder.free(slot);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    return refuse(`it is not JSON (${error instanceof Error ? error.message : 'unreadable'})`);
  }
}

function asObject(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refuse('it is not an object');
  }
  return Object.fromEntries(Object.entries(value));
}

function asCount(value: unknown, where: number | string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  const place = typeof where === 'number' ? `event ${where}` : `"${where}"`;
  return refuse(`${place} has a number that is not a whole one`);
}

function refuse(why: string): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-recording',
    fact: `This is not a recording of allocator events: ${why}.`,
    next: 'Record it again.',
  });
}
