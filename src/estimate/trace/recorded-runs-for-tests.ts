import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { truthFolder } from '../../../bench/truth.mjs';
import { parseRecordedRun, type RecordedRun } from './recorded-events.js';

/** The recorded runs of a part of the set `events` in `bench/truth`, by name. */
export function recordedRuns(part: 'known' | 'snapshots'): RecordedRun[] {
  const folder = join(truthFolder('events'), part);
  return readdirSync(folder)
    .toSorted()
    .map((name) => parseRecordedRun(readFileSync(join(folder, name), 'utf8')));
}
