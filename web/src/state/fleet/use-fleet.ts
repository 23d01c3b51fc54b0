import { useEffect } from 'preact/hooks';
import { isAtRisk } from '../../../../src/fleet/risk-order.js';
import { fetchFleet } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { Fleet, FleetNode } from '../../api/types.js';
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

export const fleetChoices = ['all', 'at risk', 'leaking', 'silent'] as const;
export type FleetChoice = (typeof fleetChoices)[number];

const tests: Readonly<Record<FleetChoice, (node: FleetNode) => boolean>> = {
  all: () => true,
  'at risk': ({ devices }) => devices.some(isAtRisk),
  leaking: ({ devices }) => devices.some((one) => one.leakBytesPerSecond !== null),
  silent: ({ devices }) => devices.some(({ silent }) => silent),
};

/** Nodes of a kind, whose name or card holds what was typed. */
export function filterNodes(
  nodes: readonly FleetNode[],
  choice: FleetChoice,
  typed: string,
): readonly FleetNode[] {
  const wanted = typed.trim().toLowerCase();
  const isNamed = ({ name, devices }: FleetNode) =>
    wanted === '' ||
    name.toLowerCase().includes(wanted) ||
    devices.some((device) => device.name.toLowerCase().includes(wanted));
  return nodes.filter((node) => tests[choice](node) && isNamed(node));
}
