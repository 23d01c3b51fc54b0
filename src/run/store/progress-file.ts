import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { readOwnDocument } from '../../files/own-file.js';
import type { ProgressPoint } from '../types.js';

const schema = 1;
/** So often is it written at most: a page that shows it asks no more often. */
const everySeconds = 1;
/** A few hundred points take some 30 KB; more is not ours. */
const maxBytes = 1024 * 1024;

/**
 * Keeps the steps of an attempt that goes on where others can read them. Where the disk is full they
 * are not kept: all of them stand in the attempt once it has ended.
 */
export function progressFile(
  path: string,
  now: () => number,
): (points: readonly ProgressPoint[]) => void {
  let writtenAt = Number.NEGATIVE_INFINITY;
  return (points) => {
    if (now() - writtenAt < everySeconds) return;
    writtenAt = now();
    const next = `${path}.new`;
    try {
      writeFileSync(next, JSON.stringify({ schema, points }), { mode: 0o600 });
      renameSync(next, path);
    } catch {
      rmSync(next, { force: true });
    }
  };
}

/** Reads such a file; empty if there is none that can be read. */
export function readProgressFile(path: string): readonly ProgressPoint[] {
  try {
    const { points } = readOwnDocument(path, { schema, maxBytes }) ?? {};
    return Array.isArray(points) ? points.filter(isPoint) : [];
  } catch {
    // A newer version wrote it.
    return [];
  }
}

function isPoint(value: unknown): value is ProgressPoint {
  const point: Readonly<Record<string, unknown>> = { ...Object(value) };
  return (
    ['atSeconds', 'step'].every((key) => Number.isFinite(point[key])) &&
    ['samplesPerSecond', 'loss', 'peakBytes', 'microbatch'].every(
      (key) => point[key] === 'unknown' || Number.isFinite(point[key]),
    )
  );
}
