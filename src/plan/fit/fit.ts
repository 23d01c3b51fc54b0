import type { Estimate } from '../../estimate/types.js';
import type { Fit } from './types.js';

type Figures = Pick<Estimate, 'peak' | 'interval'>;

/**
 * Returns the memory with which the job surely runs, the estimate's error included. It uses the
 * least capacity, since the allocator gives its cache back and tries again before it fails. Plans
 * and the queue accept a device only by this figure.
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
 * Returns the bytes to reserve for a job on a device: its need without ever giving its cache back,
 * but no more than the device has if it surely fits. It is above `capacityBytes` only if the job
 * does not surely fit; then it is the bytes needed for that.
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
