const newline = 0x0a;
/** A page of a terminal, many times over. */
const blockBytes = 64 * 1024;

/** Reads a part of a log from a byte on; it may answer less than all that follows. */
export type ReadPart = (from: number) => Promise<Uint8Array>;

/**
 * Where the last lines of a log begin. Reads backwards, so that of a log of gigabytes only the end
 * is fetched.
 */
export async function tailStart(read: ReadPart, size: number, lines: number): Promise<number> {
  let left = lines;
  let end = size;
  while (end > 0) {
    const from = Math.max(0, end - blockBytes);
    const block = (await read(from)).subarray(0, end - from);
    for (let at = block.length - 1; at >= 0; at -= 1) {
      // The end of the last line begins no other.
      if (block[at] !== newline || from + at === size - 1) continue;
      left -= 1;
      if (left <= 0) return from + at + 1;
    }
    end = from;
  }
  return 0;
}
