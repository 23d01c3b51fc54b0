import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';

const count = z.int().min(0);

/** 1: an allocation, 2: one that ran out of memory, 0: a free; then its number and its bytes. */
const step = z.tuple([z.literal([0, 1, 2]), count, count, count, count, count]);
/** Beside: 3: another stream uses it, 4: the host waits; number, bytes, stream. */
const streamStep = z.tuple([z.literal([0, 1, 2, 3, 4]), count, count, count, count, count, count]);

interface Recorded<Step> {
  readonly conf: string;
  readonly capBytes: number | null;
  readonly capFraction: number | null;
  readonly totalBytes: number;
  readonly steps: Step[];
}

export type RecordedSequence = Recorded<z.infer<typeof step>>;
export type RecordedStreams = Recorded<z.infer<typeof streamStep>>;

/** Sequences recorded by `bench/gpu/allocator_sequences.py`: random requests, and the bytes held after each. */
export function recordedSequences(): RecordedSequence[] {
  return recordedIn('allocator-sequences.json.gz', step);
}

/** Sequences recorded by `bench/gpu/stream_sequences.py`: random requests of four streams with `record_stream`. */
export function recordedStreams(): RecordedStreams[] {
  return recordedIn('stream-sequences.json.gz', streamStep);
}

function recordedIn<Step>(name: string, steps: z.ZodType<Step>): Recorded<Step>[] {
  const recording = z.object({
    sequences: z.array(
      z.object({
        conf: z.string(),
        capBytes: count.nullable(),
        capFraction: z.number().nullable(),
        totalBytes: count,
        steps: z.array(steps),
      }),
    ),
  });
  const file = new URL(`../../../bench/truth/${name}`, import.meta.url);
  return recording.parse(JSON.parse(gunzipSync(readFileSync(file)).toString())).sequences;
}
