import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { truthFolder } from '../../../bench/truth.mjs';
import { parseRecordedRun, type RecordedRun } from './recorded-events.js';

/** GPT-2, a batch of one with 64 tokens, bf16, AdamW, three steps of training, gzipped. */
export const gpt2TraceFile = new URL(
  '../../../test/fixtures/trace-gpt2-b1-s64-bf16-adamw.jsonl.gz',
  import.meta.url,
);

export function gpt2TraceText(): string {
  return gunzipSync(readFileSync(gpt2TraceFile)).toString('utf8');
}

/** Text as a stream hands it out, in pieces of that many characters. */
export async function* pieces(text: string, size = 65_536): AsyncGenerator<string> {
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
}

/** The recorded runs of a part of the set `events` in `bench/truth`, by name. */
export function recordedRuns(part: 'known' | 'snapshots'): RecordedRun[] {
  const folder = join(truthFolder('events'), part);
  return readdirSync(folder)
    .toSorted()
    .map((name) => parseRecordedRun(readFileSync(join(folder, name), 'utf8')));
}
