import { isKnown } from '../units/known.js';
import type { Risk } from '../watch/types.js';
import type { FleetDevice, FleetNode } from './document.js';

/** How urgent: a device that nobody hears of comes after those that are about to be full. */
const urgency: Readonly<Record<Risk | 'unknown', number>> = {
  critical: 6,
  high: 5,
  medium: 3,
  low: 2,
  unknown: 1,
  none: 0,
};
const silentUrgency = 4;

/**
 * Order of devices: by risk, then the one that is full sooner, then leaks, then the fuller one.
 *
 * @example
 * devices.toSorted(byRisk);
 */
export function byRisk(one: FleetDevice, other: FleetDevice): number {
  return (
    urgencyOf(other) - urgencyOf(one) ||
    (one.etaSeconds ?? Infinity) - (other.etaSeconds ?? Infinity) ||
    (other.leakBytesPerSecond ?? 0) - (one.leakBytesPerSecond ?? 0) ||
    usedShare(other) - usedShare(one) ||
    byName(one.id, other.id)
  );
}

/** Order of nodes, whose devices are in order already: by their first device. */
export function byFirstDevice(one: FleetNode, other: FleetNode): number {
  const [a, b] = [one.devices[0], other.devices[0]];
  const order = a === undefined || b === undefined ? 0 : byRisk(a, b);
  // Of equal devices the name of the node decides, not that of the device.
  return order === 0 || a === undefined || b === undefined || isEqual(a, b)
    ? byName(one.name, other.name)
    : order;
}

function isEqual(a: FleetDevice, b: FleetDevice): boolean {
  return byRisk({ ...a, id: '' }, { ...b, id: '' }) === 0;
}

/** High or critical: out of memory is expected within a minute. */
export function isAtRisk({ risk }: Pick<FleetDevice, 'risk'>): boolean {
  return isKnown(risk) && urgency[risk] >= urgency.high;
}

/** `n9` before `n10`. A collator of its own: 8,000 comparisons with `localeCompare` take a second. */
const collator = new Intl.Collator('en', { numeric: true });

export function byName(one: string, other: string): number {
  return collator.compare(one, other);
}

function urgencyOf({ silent, risk }: FleetDevice): number {
  return silent ? silentUrgency : urgency[risk];
}

function usedShare({ usedBytes, totalBytes }: FleetDevice): number {
  return isKnown(usedBytes) && isKnown(totalBytes) && totalBytes > 0 ? usedBytes / totalBytes : 0;
}
