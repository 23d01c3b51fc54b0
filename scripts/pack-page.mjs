// Beside each text file of the page the same file packed: the server sends it as it is, and no
// request waits for it to be packed.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { brotliCompressSync, gzipSync } from 'node:zlib';

/** A smaller file travels in one packet either way. */
const leastBytes = 1400;

export function packPage(folder) {
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(js|css|html|svg)$/.test(path)) continue;
    const bytes = readFileSync(`${folder}/${path}`);
    if (bytes.length < leastBytes) continue;
    writeFileSync(`${folder}/${path}.br`, brotliCompressSync(bytes));
    writeFileSync(`${folder}/${path}.gz`, gzipSync(bytes, { level: 9 }));
  }
}
