/**
 * Byte shuffle: all first bytes of the numbers, then all second ones, and so on. Signs and exponents
 * of neighbours are alike, so their planes shrink; the last bytes of a mantissa are noise and are
 * left alone.
 */
export function splitPlanes(bytes: Uint8Array, width: number): Uint8Array[] {
  const length = bytes.length / width;
  return Array.from({ length: width }, (_, plane) => {
    const out = new Uint8Array(length);
    for (let to = 0, from = plane; to < length; to += 1, from += width) out[to] = bytes[from] ?? 0;
    return out;
  });
}

export function joinPlanes(planes: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const width = planes.length;
  const out = new Uint8Array((planes[0]?.length ?? 0) * width);
  for (const [plane, bytes] of planes.entries()) {
    for (let from = 0, to = plane; from < bytes.length; from += 1, to += width) {
      out[to] = bytes[from] ?? 0;
    }
  }
  return out;
}
