import type { AllocatorSettings } from './settings.js';

/** The memory behind the segments: how much is taken, and when no more is given. */
export class DeviceMemory {
  reservedBytes = 0;
  peakReservedBytes = 0;
  segments = 0;
  /**
   * The largest total that was granted, and the smallest that was refused. Under every cap from the
   * first to just below the second, each request would have had the same answer.
   */
  maxGrantedBytes = 0;
  leastRefusedBytes = Number.POSITIVE_INFINITY;
  readonly allowedBytes: number;
  readonly #deviceBytes: number;

  /** `from`: another one, of which as much is taken. */
  constructor(
    settings: Pick<AllocatorSettings, 'allowedBytes' | 'deviceBytes'>,
    from?: DeviceMemory,
  ) {
    this.allowedBytes = settings.allowedBytes === 'unlimited' ? Infinity : settings.allowedBytes;
    this.#deviceBytes = settings.deviceBytes === 'unlimited' ? Infinity : settings.deviceBytes;
    if (from === undefined) return;
    this.reservedBytes = from.reservedBytes;
    this.peakReservedBytes = from.peakReservedBytes;
    this.segments = from.segments;
    this.maxGrantedBytes = from.maxGrantedBytes;
    this.leastRefusedBytes = from.leastRefusedBytes;
  }

  /** PyTorch's own check against its memory fraction, made before the driver is asked. */
  allows(bytes: number): boolean {
    return this.#fits(bytes, this.allowedBytes);
  }

  /** Takes memory from the driver; false when the device has no more. */
  take(bytes: number): boolean {
    if (!this.#fits(bytes, this.#deviceBytes)) return false;
    this.reservedBytes += bytes;
    if (this.reservedBytes > this.peakReservedBytes) this.peakReservedBytes = this.reservedBytes;
    return true;
  }

  give(bytes: number): void {
    this.reservedBytes -= bytes;
  }

  /** Bytes that can still be taken; Infinity without a cap. */
  get leftBytes(): number {
    return Math.max(0, Math.min(this.allowedBytes, this.#deviceBytes) - this.reservedBytes);
  }

  #fits(bytes: number, cap: number): boolean {
    const total = this.reservedBytes + bytes;
    if (total <= cap) {
      if (total > this.maxGrantedBytes) this.maxGrantedBytes = total;
      return true;
    }
    if (total < this.leastRefusedBytes) this.leastRefusedBytes = total;
    return false;
  }
}
