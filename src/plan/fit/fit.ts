import type { Estimate } from '../../estimate/types.js';
import type { Fit } from './types.js';

type Figures = Pick<Estimate, 'peak' | 'interval'>;

/**
 * What a device must have for the job to run, with all that the estimate may have missed. The least
 * capacity counts, as the allocator gives its cache back and tries again before it fails. A plan
 * takes only what this lets in, and so does the queue.
 */
export function sureBytes({ peak, interval }: Figures): number {
  return peak.leastCapacityBytes + Math.max(0, interval.highBytes - peak.reservedBytes);
}

/**
 * Whether an estimate fits.
 *
 * @example
 * fitOf(estimate, 24 * 1024 ** 3); // 'surely', 'tightly' or 'no'
 */
export function fitOf(estimate: Figures, capacityBytes: number): Fit {
  if (sureBytes(estimate) <= capacityBytes) return 'surely';
  return estimate.peak.leastCapacityBytes <= capacityBytes ? 'tightly' : 'no';
}

/**
 * Whether even the lower end of the estimate is more than there is.
 *
 * @example
 * surelyTooLarge(estimate, 8 * 1024 ** 3); // false where it may still fit
 */
export function surelyTooLarge({ peak, interval }: Figures, capacityBytes: number): boolean {
  const below = Math.max(0, peak.reservedBytes - interval.lowBytes);
  return peak.leastCapacityBytes - below > capacityBytes;
}

/**
 * What to reserve for a job on a device of so many bytes: what it takes when it never has to give
 * its cache back, and no more than there is where it surely fits. Above `capacityBytes` only where
 * it does not surely fit; then it is what is needed for that.
 *
 * @example
 * const bytes = bytesToReserve(estimate, line);
 * bytes <= line === (fitOf(estimate, line) === 'surely'); // true
 */
export function bytesToReserve(estimate: Figures, capacityBytes: number): number {
  const sure = sureBytes(estimate);
  if (sure > capacityBytes) return sure;
  const { peak, interval } = estimate;
  const withCache = interval.highBytes + (peak.deviceBytes - peak.reservedBytes);
  return Math.min(capacityBytes, Math.max(sure, withCache));
}
