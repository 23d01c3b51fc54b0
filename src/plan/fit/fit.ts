import type { Estimate } from '../../estimate/contract.js';
import type { Fit } from './types.js';

/** What is needed to be sure: with all that the estimate may have missed. */
export function sureBytes({ peak, interval }: Estimate): number {
  return peak.leastCapacityBytes + Math.max(0, interval.highBytes - peak.reservedBytes);
}

/**
 * Whether an estimate fits. The least capacity decides, as the allocator gives its cache back and
 * tries again before it fails.
 *
 * @example
 * fitOf(estimate, 24 * 1024 ** 3); // 'surely', 'tightly' or 'no'
 */
export function fitOf(estimate: Estimate, capacityBytes: number): Fit {
  if (sureBytes(estimate) <= capacityBytes) return 'surely';
  return estimate.peak.leastCapacityBytes <= capacityBytes ? 'tightly' : 'no';
}
