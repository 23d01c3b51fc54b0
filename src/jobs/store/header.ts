import { applicationId } from './schema.js';

/** What the first bytes of a file say of it, before anything is opened that could change it. */
export type HeaderVerdict = 'fresh' | 'ours' | 'foreign-database' | 'no-database';

/** The header of an SQLite file. */
export const headerBytes = 100;
const magic = 'SQLite format 3\0';
const applicationIdOffset = 68;

export function judgeHeader(header: Uint8Array): HeaderVerdict {
  if (header.length === 0) return 'fresh';
  const bytes = Buffer.from(header.buffer, header.byteOffset, header.byteLength);
  if (bytes.length < headerBytes || bytes.toString('latin1', 0, magic.length) !== magic) {
    return 'no-database';
  }
  return bytes.readUInt32BE(applicationIdOffset) === applicationId ? 'ours' : 'foreign-database';
}
