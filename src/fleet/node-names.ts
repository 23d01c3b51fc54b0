import type { Point } from './read-answer.js';

/**
 * What people call the targets of Prometheus: the name that the exporter gives itself, else the
 * target without its port. Where two would have the same name, the target as it is.
 *
 * @example
 * nodeNames([], ['n1:9847', 'n2:9847']).get('n1:9847'); // 'n1'
 */
export function nodeNames(
  named: readonly Point[],
  instances: Iterable<string>,
): ReadonlyMap<string, string> {
  const own = new Map(named.map(({ labels }) => [labels['instance'] ?? '', labels['node'] ?? '']));
  const short = [...new Set(instances)].map((one) => {
    const name = own.get(one) || one.replace(/:\d+$/, '');
    return [one, name] as const;
  });
  const counts = new Map<string, number>();
  for (const [, name] of short) counts.set(name, (counts.get(name) ?? 0) + 1);
  return new Map(short.map(([one, name]) => [one, counts.get(name) === 1 ? name : one]));
}
