import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { parseRecordedRun, type RecordedRun } from './recorded-events.js';

/** The recorded runs in a folder of `bench/truth`, by name. */
export function recordedRuns(folder: string): RecordedRun[] {
  const place = new URL(`../../../bench/truth/${folder}/`, import.meta.url);
  return readdirSync(place)
    .toSorted()
    .map((name) => parseRecordedRun(gunzipSync(readFileSync(new URL(name, place))).toString()));
}
