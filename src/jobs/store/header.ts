import { applicationId } from './schema.js';

/** What the first bytes of a file say of it, before anything is opened that could change it. */
export type HeaderVerdict =
  | { readonly kind: 'fresh' | 'foreign' }
  | { readonly kind: 'ours'; readonly version: number };

/** The header of an SQLite file. */
export const headerBytes = 100;
const magic = 'SQLite format 3\0';
const versionOffset = 60;
const applicationIdOffset = 68;

export function judgeHeader(header: Uint8Array): HeaderVerdict {
  if (header.length === 0) return { kind: 'fresh' };
  const bytes = Buffer.from(header.buffer, header.byteOffset, header.byteLength);
  const ours =
    bytes.length === headerBytes &&
    bytes.toString('latin1', 0, magic.length) === magic &&
    bytes.readUInt32BE(applicationIdOffset) === applicationId;
  return ours ? { kind: 'ours', version: bytes.readUInt32BE(versionOffset) } : { kind: 'foreign' };
}
