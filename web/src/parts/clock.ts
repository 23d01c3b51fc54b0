import { createStore, useStore } from '../state/live/store.js';

/** Words such as `3 min ago` need no finer clock. */
const everyMs = 1000;
const clock = createStore(Date.now());
setInterval(() => clock.set(Date.now()), everyMs);

/** The time, once a second. */
export function useNow(): number {
  return useStore(clock, (now) => now);
}
