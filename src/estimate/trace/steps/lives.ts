import { type EventStream, eventKind } from '../event-stream.js';

/** By slot: the events that ask for it and free it. */
export interface Lives {
  readonly allocatedAt: Int32Array;
  /** The length of the stream where nothing frees it. */
  readonly freedAt: Int32Array;
}

export function livesOf({ kind, slot, length, slots }: EventStream): Lives {
  const allocatedAt = new Int32Array(slots);
  const freedAt = new Int32Array(slots).fill(length);
  for (let at = 0; at < length; at += 1) {
    if (kind[at] === eventKind.alloc) allocatedAt[slot[at] ?? 0] = at;
    else if (kind[at] === eventKind.free) freedAt[slot[at] ?? 0] = at;
  }
  return { allocatedAt, freedAt };
}
