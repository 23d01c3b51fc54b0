/** A whole number of up to 8 bytes (and a sign) as a pickle writes it: little-endian, signed. */
export interface WideInteger {
  /** Exact below 2^53; rounded above. */
  readonly number: number;
  /** The upper and lower half of the 64 bits. */
  readonly high: number;
  readonly low: number;
  readonly exact: boolean;
  /** It fits into 64 bits without a sign. */
  readonly fits: boolean;
}

/**
 * Reads LONG1 and LONG4 beyond 6 bytes; the shorter ones are read where they are met.
 *
 * @example
 * wideInteger(Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0x80, 0), 0, 9).high; // 2147483648
 */
export function wideInteger(bytes: Uint8Array, from: number, length: number): WideInteger {
  const sign = length > 0 && ((bytes[from + length - 1] ?? 0) & 0x80) !== 0 ? 0xff : 0;
  const byteAt = (at: number): number => (at < length ? (bytes[from + at] ?? 0) : sign);
  const word = (at: number): number =>
    (byteAt(at) | (byteAt(at + 1) << 8) | (byteAt(at + 2) << 16) | (byteAt(at + 3) << 24)) >>> 0;
  const low = word(0);
  const high = word(4);
  let fits = sign === 0;
  for (let at = 8; at < length; at += 1) if ((bytes[from + at] ?? 0) !== sign) fits = false;
  const number = sign === 0 ? high * 2 ** 32 + low : -((~high >>> 0) * 2 ** 32 + (~low >>> 0)) - 1;
  return { number, high, low, fits, exact: fits && high < 2 ** 21 };
}

/** Four bytes, the lowest first. */
export function uint32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24)) >>>
    0
  );
}

const eight = new DataView(new ArrayBuffer(8));

/** Floats of a pickle are big-endian. */
export function float64(bytes: Uint8Array, at: number): number {
  for (let byte = 0; byte < 8; byte += 1) eight.setUint8(byte, bytes[at + byte] ?? 0);
  return eight.getFloat64(0);
}

/** A positive number of a few bytes, the lowest first; exact below 2^53. */
export function littleEndian(bytes: Uint8Array, from: number, length: number): number {
  let number = 0;
  for (let at = from + length - 1; at >= from; at -= 1) number = number * 256 + (bytes[at] ?? 0);
  return number;
}
