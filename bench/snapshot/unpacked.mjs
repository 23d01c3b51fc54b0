// The recorded snapshot with a leak, unpacked by our own reader of xz.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const dist = process.env.PLIMSOLL_DIST ?? fileURLToPath(new URL('../../dist/', import.meta.url));
const { XzReader } = await import(pathToFileURL(join(dist, 'snapshot/xz/xz-reader.js')).href);

export function unpackedSnapshot() {
  const parts = [];
  const reader = new XzReader((bytes) => parts.push(bytes.slice()) > 0);
  reader.push(readFileSync(new URL('../truth/snapshots/leak.pickle.xz', import.meta.url)));
  reader.end();
  return Buffer.concat(parts);
}
