// The same allocator as most people would write it first: an object a block, one sorted array of
// free blocks a pool, addresses that fall. What the typed columns of the package are held against.
const mebibyte = 1024 ** 2;

/** Replays a stream of events; gives the peaks, as the package's own replay does. */
export function replaySimply({ kind, slot, bytes, length }, eventKind) {
  const pools = { small: [], large: [] };
  const live = new Map();
  const state = { allocated: 0, reserved: 0, peakAllocated: 0, peakReserved: 0, edge: 0 };
  for (let at = 0; at < length; at += 1) {
    switch (kind[at]) {
      case eventKind.alloc:
        live.set(slot[at], malloc(pools, state, bytes[at]));
        break;
      case eventKind.free:
        free(state, live.get(slot[at]));
        live.delete(slot[at]);
        break;
      case eventKind.emptyCache:
        emptyCache(pools, state);
        break;
      case eventKind.resetPeaks:
        state.peakAllocated = state.allocated;
        state.peakReserved = state.reserved;
        break;
      default:
    }
  }
  return { peakAllocatedBytes: state.peakAllocated, peakReservedBytes: state.peakReserved };
}

function malloc(pools, state, asked) {
  const size = Math.ceil(asked / 512) * 512;
  const small = size <= mebibyte;
  const pool = small ? pools.small : pools.large;
  let place = 0;
  let end = pool.length;
  while (place < end) {
    const middle = (place + end) >>> 1;
    if (pool[middle].size < size) place = middle + 1;
    else end = middle;
  }
  const [found] = pool.splice(place, 1);
  const block = found ?? addSegment(state, pool, size);
  const rest = block.size - size;
  if (small ? rest >= 512 : rest > mebibyte) {
    const tail = { address: block.address + size, size: rest, pool, free: true };
    tail.previous = block;
    tail.next = block.next;
    if (block.next) block.next.previous = tail;
    block.next = tail;
    block.size = size;
    insert(tail);
  }
  block.free = false;
  state.allocated += block.size;
  state.peakAllocated = Math.max(state.peakAllocated, state.allocated);
  return block;
}

function addSegment(state, pool, size) {
  let bytes = Math.ceil(size / (2 * mebibyte)) * 2 * mebibyte;
  if (size <= mebibyte) bytes = 2 * mebibyte;
  else if (size < 10 * mebibyte) bytes = 20 * mebibyte;
  state.reserved += bytes;
  state.peakReserved = Math.max(state.peakReserved, state.reserved);
  state.edge -= bytes;
  return { address: state.edge, size: bytes, pool, previous: null, next: null };
}

function free(state, block) {
  state.allocated -= block.size;
  for (const other of [block.previous, block.next]) {
    if (!other?.free) continue;
    remove(other);
    if (other === block.previous) {
      block.address = other.address;
      block.previous = other.previous;
      if (other.previous) other.previous.next = block;
    } else {
      block.next = other.next;
      if (other.next) other.next.previous = block;
    }
    block.size += other.size;
  }
  block.free = true;
  insert(block);
}

function emptyCache(pools, state) {
  for (const pool of Object.values(pools)) {
    for (const block of pool.filter(({ previous, next }) => !previous && !next)) {
      remove(block);
      state.reserved -= block.size;
    }
  }
}

function insert(block) {
  block.pool.splice(placeOf(block), 0, block);
}

function remove(block) {
  block.pool.splice(placeOf(block), 1);
}

function placeOf({ pool, size, address }) {
  let low = 0;
  let high = pool.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const other = pool[middle];
    if (other.size < size || (other.size === size && other.address < address)) low = middle + 1;
    else high = middle;
  }
  return low;
}
