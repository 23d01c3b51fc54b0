import { closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { DroppedPart } from './log-limit.js';

/** Enough for every place in a file that a number of ours can name. */
const digits = 16;
const form = /^(\d{16}) (\d{16}) (\d{16})\n$/;
const recordBytes = 3 * (digits + 1);
/** A read during a write may see halves of two. */
const looks = 3;

/** Holds the place of a record in a log of which nothing is missing yet. */
export const nothing: DroppedPart = { from: 0, to: 0 };

/** Where it stands what is missing in a log. */
export function droppedRecordPath(log: string): string {
  return `${log}.dropped`;
}

/** With its check: half of one and half of another do not add up. */
export function formatDropped({ from, to }: DroppedPart): string {
  return `${[from, to, from + to].map((at) => String(at).padStart(digits, '0')).join(' ')}\n`;
}

export function parseDropped(text: string): DroppedPart | undefined {
  const [from = 0, to = 0, check] = form.exec(text)?.slice(1).map(Number) ?? [];
  return check === from + to && from < to && Number.isSafeInteger(check) ? { from, to } : undefined;
}

/**
 * What is missing in a log; undefined where nothing is. A record that goes beyond the end is of an
 * earlier log: somebody emptied the file by hand.
 */
export function readDropped(log: string): DroppedPart | undefined {
  for (let look = 0; look < looks; look++) {
    const text = readRecord(log);
    if (text === undefined) return undefined;
    const dropped = parseDropped(text);
    if (dropped === undefined) continue;
    // After the record: a log that grows is never shorter than what was dropped of it.
    const size = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
    return dropped.to <= size ? dropped : undefined;
  }
  return undefined;
}

function readRecord(log: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(droppedRecordPath(log), 'r');
  } catch {
    return undefined;
  }
  try {
    const buffer = Buffer.alloc(recordBytes);
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, recordBytes, 0));
  } finally {
    closeSync(fd);
  }
}

/**
 * On the disk when it resolves. Always of one length and in the same place: a disk that is full has
 * room for it, and a process that is killed has written all of it or nothing.
 */
export async function writeDropped(log: string, dropped: DroppedPart): Promise<void> {
  const { O_WRONLY, O_CREAT } = constants;
  const file = await open(droppedRecordPath(log), O_WRONLY | O_CREAT, 0o600);
  try {
    await file.write(formatDropped(dropped), 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Stands in a log where a part of it is missing. */
export function droppedNote({ from, to }: DroppedPart): string {
  return `plimsoll: ${to - from} bytes of this log were dropped here (${from} to ${to}): its beginning and what is newest are kept.\n`;
}
