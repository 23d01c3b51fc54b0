import { useEffect } from 'preact/hooks';
import { fetchFleet } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { Fleet } from '../../api/types.js';
import { createStore, useStore } from '../live/store.js';

export interface FleetState {
  /** The last that was heard; kept while the server or Prometheus does not answer. */
  readonly fleet: Fleet | undefined;
  readonly refusal: Refusal | undefined;
}

/** As often as nodes are usually scraped. */
const everyMs = 15_000;

const state = createStore<FleetState>({ fleet: undefined, refusal: undefined });

/** The fleet, asked again as long as somebody looks at it. */
export function useFleet(): FleetState {
  useEffect(() => {
    let closed = false;
    const look = async (): Promise<void> => {
      if (document.hidden) return;
      try {
        const fleet = await fetchFleet();
        if (!closed) state.set({ fleet, refusal: undefined });
      } catch (error) {
        if (!closed) state.set({ ...state.get(), refusal: asRefusal(error) });
      }
    };
    void look();
    const timer = setInterval(() => void look(), everyMs);
    return () => {
      closed = true;
      clearInterval(timer);
    };
  }, []);
  return useStore(state, (now) => now);
}
