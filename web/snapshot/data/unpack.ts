import type {
  ColumnName,
  PackedColumn,
  RecordingHeader,
} from '../../../src/report/recording-header.js';

/** The packed data of a page, opened: its header, and the columns where they lie. */
export interface Unpacked {
  readonly header: RecordingHeader;
  u16(name: ColumnName): Uint16Array;
  u32(name: ColumnName): Uint32Array;
  f64(name: ColumnName): Float64Array;
}

/** Opens what `packRecording` packed. */
export async function unpack(pieces: readonly string[]): Promise<Unpacked> {
  const packed = new Blob(pieces.map(fromBase64));
  const stream = packed.stream().pipeThrough(new DecompressionStream('gzip'));
  return openColumns(await new Response(stream).arrayBuffer());
}

function openColumns(buffer: ArrayBuffer): Unpacked {
  const words = new DataView(buffer).getFloat64(0, true);
  const text = new TextDecoder().decode(new Uint8Array(buffer, 8, words));
  const header: RecordingHeader = JSON.parse(text);
  const at = ({ start }: PackedColumn) => 8 + words + start;
  return {
    header,
    u16: (name) => new Uint16Array(buffer, at(header.columns[name]), header.columns[name].length),
    u32: (name) => new Uint32Array(buffer, at(header.columns[name]), header.columns[name].length),
    f64: (name) => new Float64Array(buffer, at(header.columns[name]), header.columns[name].length),
  };
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return bytes;
}
