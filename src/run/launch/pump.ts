import { closeSync, read } from 'node:fs';

/** A pipe holds as much on Linux: more would never come at once. */
export const chunkBytes = 64 * 1024;

/**
 * Copies what comes out of a descriptor, one piece after the other, until its end. It reads no
 * faster than `sink` takes it, so a slow reader slows the program as it would without us.
 *
 * The descriptor stays in blocking mode: it is shared with the drainer, which cannot do without.
 */
export async function pump(
  readFd: number,
  sink: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(chunkBytes);
  try {
    for (;;) {
      const count = await readSome(readFd, buffer);
      if (count === 0) return;
      await sink(buffer.subarray(0, count));
    }
  } finally {
    closeSync(readFd);
  }
}

export function readSome(fd: number, buffer: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, buffer, 0, buffer.length, null, (error, count) => {
      // A terminal whose other side is closed says EIO where a pipe says nothing more comes.
      if (error === null) resolve(count);
      else if (error.code === 'EIO') resolve(0);
      else reject(error);
    });
  });
}
