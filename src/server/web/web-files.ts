import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { serverLimits } from '../http/limits.js';

export type Bytes = Uint8Array<ArrayBuffer>;

/** A file of the page, with the forms that were packed beforehand. */
export interface WebFile {
  readonly bytes: Bytes;
  readonly type: string;
  readonly etag: string;
  /** Its name holds a hash of what it holds: it never changes. */
  readonly isForever: boolean;
  readonly packed: ReadonlyMap<'br' | 'gzip', Bytes>;
}

/** By the path that is asked for: `/`, `/assets/index-3f2a91bc.js`. */
export type WebFiles = ReadonlyMap<string, WebFile>;

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  json: 'application/json',
  webmanifest: 'application/manifest+json',
  svg: 'image/svg+xml',
  png: 'image/png',
  ico: 'image/x-icon',
  woff2: 'font/woff2',
  txt: 'text/plain; charset=utf-8',
};

const packings = { '.br': 'br', '.gz': 'gzip' } as const;

/**
 * The page, read whole when the server starts. What is asked for later is looked up among these
 * names and nowhere else, so no path leads out of the folder. None where there is no folder.
 */
export async function readWebFiles(folder: string): Promise<WebFiles> {
  const contents = await readFolder(folder);
  const files = new Map<string, WebFile>();
  for (const [name, bytes] of contents) {
    if (/\.(br|gz)$/.test(name)) continue;
    const type = types[name.split('.').at(-1) ?? ''];
    // Maps for debuggers and other things beside the page are not served.
    if (type === undefined) continue;
    const packed = new Map(
      Object.entries(packings).flatMap(([ending, packing]) => {
        const found = contents.get(name + ending);
        return found === undefined ? [] : [[packing, found] as const];
      }),
    );
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"`;
    const isForever = /^assets\/.*-[\w-]{8,}\.\w+$/.test(name);
    files.set(name === 'index.html' ? '/' : `/${name}`, { bytes, type, etag, isForever, packed });
  }
  return files;
}

async function readFolder(folder: string): Promise<ReadonlyMap<string, Bytes>> {
  const contents = new Map<string, Bytes>();
  let total = 0;
  for (const entry of await entriesOf(folder)) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = new Uint8Array(await readFile(path));
    total += bytes.length;
    if (total > serverLimits.webBytes || contents.size >= serverLimits.webFiles) {
      throw notThePage(folder);
    }
    contents.set(path.slice(folder.length).replaceAll('\\', '/').replace(/^\/+/, ''), bytes);
  }
  return contents;
}

async function entriesOf(folder: string) {
  try {
    return await readdir(folder, { recursive: true, withFileTypes: true });
  } catch {
    return [];
  }
}

function notThePage(folder: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-web-folder',
    fact: `${folder} has far more files than the dashboard.`,
    next: 'Name the folder dist/web of the package.',
  });
}
