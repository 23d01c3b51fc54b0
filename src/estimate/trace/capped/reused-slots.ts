import { type EventStream, eventKind } from '../event-stream.js';

/** For an event whose allocation was never made or is freed already. A replay refuses it, as before. */
const noSlot = -1;

/**
 * The same events, where the slot of what was freed is used again: there are as many slots as allocations live at
 * once, not as there are at all. A slot is used again only by requests of the same stream, and only by those that the job
 * can do without as well, or by those that it cannot.
 *
 * @example
 * withReusedSlots(stream).slots; // 4,000 instead of 500,000
 */
export function withReusedSlots(stream: EventStream): EventStream {
  const { kind, slot, length, spare, streams } = stream;
  const reused = new Int32Array(length);
  /** By slot of the stream: the one that it has now. */
  const now = new Int32Array(stream.slots).fill(noSlot);
  const unused = new Map<number, number[]>();
  const kinds: number[] = [];
  for (let at = 0; at < length; at += 1) {
    const place = slot[at] ?? 0;
    if (kind[at] === eventKind.alloc) {
      const sort = 2 * (streams[place] ?? 0) + (spare[place] ?? 0);
      const found = unused.get(sort)?.pop() ?? kinds.length;
      if (found === kinds.length) kinds.push(sort);
      now[place] = found;
    }
    reused[at] = now[place] ?? noSlot;
    if (kind[at] !== eventKind.free) continue;
    now[place] = noSlot;
    const freed = reused[at] ?? noSlot;
    if (freed === noSlot) continue;
    const sort = kinds[freed] ?? 0;
    const others = unused.get(sort);
    if (others === undefined) unused.set(sort, [freed]);
    else others.push(freed);
  }
  return {
    ...stream,
    slot: reused,
    slots: kinds.length,
    spare: Uint8Array.from(kinds, (sort) => sort & 1),
    streams: Uint8Array.from(kinds, (sort) => sort >>> 1),
  };
}
