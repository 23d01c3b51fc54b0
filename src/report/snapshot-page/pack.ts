import { gzipSync } from 'node:zlib';
import type { ColumnName, PackedColumn, RecordingHeader } from './recording-header.js';

export type Column = Uint16Array | Uint32Array | Float64Array;

/** Characters in one piece: a browser takes each in a moment, and none of them holds up the page. */
const pieceLength = 2 ** 18;
/** Columns begin at multiples of this, so that a browser can look at them in place. */
const alignment = 8;

/**
 * The header and the columns as one packed text, in pieces: `length of header, header, columns`,
 * compressed, in base64.
 */
export function packRecording(
  header: Omit<RecordingHeader, 'columns'>,
  columns: Readonly<Record<ColumnName, Column>>,
): string[] {
  let start = 0;
  const places: [string, PackedColumn][] = [];
  const parts: Uint8Array[] = [];
  for (const [name, column] of Object.entries(columns)) {
    const bytes = new Uint8Array(column.buffer, column.byteOffset, column.byteLength);
    const filled = Math.ceil(bytes.length / alignment) * alignment;
    places.push([name, { kind: kindOf(column), start, length: column.length }]);
    parts.push(bytes, new Uint8Array(filled - bytes.length));
    start += filled;
  }
  const words = Buffer.from(JSON.stringify({ ...header, columns: Object.fromEntries(places) }));
  const room = Buffer.alloc(Math.ceil((alignment + words.length) / alignment) * alignment, ' ');
  room.writeDoubleLE(room.length - alignment, 0);
  words.copy(room, alignment);
  const text = gzipSync(Buffer.concat([room, ...parts])).toString('base64');
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += pieceLength)
    pieces.push(text.slice(at, at + pieceLength));
  return pieces;
}

function kindOf(column: Column): PackedColumn['kind'] {
  if (column instanceof Float64Array) return 'f64';
  return column instanceof Uint32Array ? 'u32' : 'u16';
}
