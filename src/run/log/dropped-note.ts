import type { DroppedPart } from './log-limit.js';

/** Stands in a log where a part of it is missing. */
export function droppedNote({ from, to }: DroppedPart): string {
  return `plimsoll: ${to - from} bytes of this log were dropped here (${from} to ${to}): its beginning and what is newest are kept.\n`;
}
