const newline = 0x0a;
/** A page of a terminal, many times over. More lines are fetched in larger pieces. */
const firstBlockBytes = 64 * 1024;
/** The server gives twice as much at once: a block comes whole, also with a line of the server's. */
const largestBlockBytes = 512 * 1024;

/** Reads a part of a log from an offset on; it may answer less than all that follows. */
export type ReadPart = (
  from: number,
) => Promise<{ readonly bytes: Uint8Array; readonly next: number }>;

/**
 * Where the last lines of a log begin. Reads backwards, so that of a log of gigabytes only the end
 * is fetched; where a part of it is missing, the last lines begin behind that.
 */
export async function tailStart(read: ReadPart, size: number, lines: number): Promise<number> {
  let left = lines;
  let end = size;
  for (let block = firstBlockBytes; end > 0; block = Math.min(2 * block, largestBlockBytes)) {
    const from = Math.max(0, end - block);
    const { bytes, next } = await read(from);
    const first = next - bytes.length;
    for (let index = bytes.length - 1; index >= 0; index -= 1) {
      const at = first + index;
      // The end of the last line begins no other.
      if (bytes[index] !== newline || at >= end || at === size - 1) continue;
      left -= 1;
      if (left <= 0) return at + 1;
    }
    if (first !== from) return from;
    end = from;
  }
  return 0;
}
