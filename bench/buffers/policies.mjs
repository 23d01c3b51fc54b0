import { Tier } from '../../dist/buffers/buffer-store.js';

/** Hits of each way to choose what goes, over the same requests. */
export const policies = {
  LRU: (trace, items) => {
    const held = new Map();
    return count(trace, (key) => {
      const hit = held.delete(key);
      held.set(key, true);
      if (held.size > items) held.delete(held.keys().next().value);
      return hit;
    });
  },
  LFU: (trace, items) => leastFrequent(trace, items),
  plimsoll: (trace, items) => {
    const tier = new Tier(items);
    return count(trace, (number) => {
      const key = String(number);
      const hit = tier.use(key) !== undefined;
      if (!hit) tier.add(key, { rawBytes: 1 }, 1);
      return hit;
    });
  },
};

function count(trace, isHit) {
  let hits = 0;
  for (const key of trace) if (isHit(key)) hits += 1;
  return hits;
}

/** The least used goes; among equals the one that was used longest ago. Counts end with the item. */
function leastFrequent(trace, items) {
  const counts = new Map();
  const groups = new Map();
  const enter = (key, uses) => {
    counts.set(key, uses);
    if (!groups.has(uses)) groups.set(uses, new Set());
    groups.get(uses).add(key);
  };
  const leave = (key) => {
    const uses = counts.get(key);
    counts.delete(key);
    groups.get(uses).delete(key);
    if (groups.get(uses).size === 0) groups.delete(uses);
    return uses;
  };
  return count(trace, (key) => {
    if (counts.has(key)) {
      enter(key, leave(key) + 1);
      return true;
    }
    if (counts.size >= items) {
      const [victim] = groups.get(Math.min(...groups.keys()));
      leave(victim);
    }
    enter(key, 1);
    return false;
  });
}
