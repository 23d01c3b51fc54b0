import { refuseSnapshot } from '../refusals.js';
import type { Frame, Names } from '../snapshot.js';
import type { SnapshotBuilder } from './builder.js';

export function namesOf(builder: SnapshotBuilder): Names {
  const { stacks, addresses, streams } = builder;
  const frames = new Map<number, Frame>();
  const texts = new Map<number, string>();
  const text = (id: number): string => {
    const known = texts.get(id) ?? builder.strings.text(id);
    texts.set(id, known);
    return known;
  };
  const frame = (id: number): Frame => {
    const known = frames.get(id) ?? {
      name: text(builder.frames.first[id] ?? 0),
      file: text(builder.frames.second[id] ?? 0),
      line: builder.frames.third[id] ?? 0,
    };
    frames.set(id, known);
    return known;
  };
  return {
    stacks,
    addressCount: addresses.length,
    offset: offsetsOf(addresses.first, addresses.second, addresses.length),
    address: (id) => whole(addresses.first[id] ?? 0, addresses.second[id] ?? 0),
    stream: (id) => String(whole(streams.first[id] ?? 0, streams.second[id] ?? 0)),
    frame,
    stack: (id) => [...stacks.frames.subarray(stacks.startOf(id), stacks.endOf(id))].map(frame),
  };
}

function whole(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}

/** Addresses may pass 2^53, distances between those of one process do not. */
function offsetsOf(high: Uint32Array, low: Uint32Array, length: number): Float64Array {
  let leastHigh = Infinity;
  let maxHigh = 0;
  for (let id = 0; id < length; id += 1) {
    leastHigh = Math.min(leastHigh, high[id] ?? 0);
    maxHigh = Math.max(maxHigh, high[id] ?? 0);
  }
  if (maxHigh - leastHigh >= 2 ** 21) refuseSnapshot('its addresses lie 2^53 bytes apart');
  const offset = new Float64Array(length);
  for (let id = 0; id < length; id += 1) {
    offset[id] = ((high[id] ?? 0) - leastHigh) * 2 ** 32 + (low[id] ?? 0);
  }
  return offset;
}
