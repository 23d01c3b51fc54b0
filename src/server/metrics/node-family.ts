import type { MetricFamily } from './metric-text.js';

/** Names the machine: `instance`, which Prometheus adds, may be an address. */
export function nodeFamily(node: string, version: string): MetricFamily {
  return {
    name: 'plimsoll_node_info',
    help: 'The machine, and the version of plimsoll on it.',
    type: 'gauge',
    samples: [{ labels: { node, version }, value: 1 }],
  };
}
