import { isAtRisk } from '../../../../src/fleet/risk-order.js';
import type { FleetNode } from '../../api/types.js';

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
