import type { Answer } from '../routes/operation.js';
import type { Bytes, WebFile, WebFiles } from './web-files.js';

/** The file that is asked for, or nothing where there is none of that name. */
export function webAnswer(
  files: WebFiles,
  path: string,
  headers: {
    readonly 'accept-encoding'?: string | undefined;
    readonly 'if-none-match'?: string | undefined;
  },
): Answer | undefined {
  const file = files.get(path === '/index.html' ? '/' : path);
  if (file === undefined) return undefined;
  const caching = {
    etag: file.etag,
    vary: 'accept-encoding',
    'cache-control': file.isForever ? 'public, max-age=31536000, immutable' : 'no-cache',
  };
  if (matches(headers['if-none-match'], file.etag)) {
    return { status: 304, body: null, headers: caching };
  }
  const { bytes, packing } = choosePacking(file, headers['accept-encoding'] ?? '');
  return {
    status: 200,
    body: bytes,
    headers: {
      'content-type': file.type,
      ...caching,
      ...(packing !== undefined && { 'content-encoding': packing }),
    },
  };
}

function matches(header: string | undefined, etag: string): boolean {
  return (header ?? '')
    .split(',')
    .some((one) => one.trim() === '*' || one.trim().replace(/^W\//, '') === etag);
}

/** The smallest that the client says it takes. */
function choosePacking(
  { bytes, packed }: WebFile,
  accepted: string,
): { readonly bytes: Bytes; readonly packing?: string } {
  const words = new Set(
    accepted
      .toLowerCase()
      .split(',')
      // Split at the sign alone: an expression with the spaces around it takes ages over many spaces.
      .map((word) => word.split(';').map((part) => part.trim()))
      .filter(([, quality]) => !/^q=0(\.0*)?$/.test(quality ?? ''))
      .map(([word]) => word),
  );
  for (const packing of ['br', 'gzip'] as const) {
    const found = packed.get(packing);
    if (found !== undefined && words.has(packing)) return { bytes: found, packing };
  }
  return { bytes };
}
