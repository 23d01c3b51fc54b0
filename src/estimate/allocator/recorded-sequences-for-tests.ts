import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';

const count = z.int().min(0);

/** 1: an allocation, 2: one that ran out of memory, 0: a free; then its number and its bytes. */
const step = z.tuple([z.literal([0, 1, 2]), count, count, count, count, count]);

const recording = z.object({
  torch: z.string(),
  sequences: z.array(
    z.object({
      conf: z.string(),
      capBytes: count.nullable(),
      capFraction: z.number().nullable(),
      totalBytes: count,
      steps: z.array(step),
    }),
  ),
});

export type RecordedSequence = z.infer<typeof recording>['sequences'][number];

/** What `bench/gpu/allocator_sequences.py` saw: random requests, and what was held after each. */
export function recordedSequences(): RecordedSequence[] {
  const file = new URL('../../../bench/truth/allocator-sequences.json.gz', import.meta.url);
  return recording.parse(JSON.parse(gunzipSync(readFileSync(file)).toString())).sequences;
}
