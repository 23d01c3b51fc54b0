// Writes a zip file that comes out the same, byte for byte, on every machine and day.
import { closeSync, openSync, writeSync } from 'node:fs';
import { crc32, deflateRawSync } from 'node:zlib';

/** Zip counts from 1980; every file gets that first day. */
const firstDay = (1 << 5) | 1;
const deflated = 8;
const version = 20;
/** The high byte says that the attributes are Unix permissions. */
const madeOnUnix = (3 << 8) | version;
const regularFile = 0o100000;

/**
 * @param {string} file
 * @param {Iterable<{ name: string, data: Buffer, mode: number }>} entries
 */
export function writeZip(file, entries) {
  const out = openSync(file, 'w');
  try {
    const directory = [];
    let offset = 0;
    const write = (part) => {
      writeSync(out, part);
      offset += part.length;
    };
    for (const { name, data, mode } of entries) {
      const packed = deflateRawSync(data);
      const nameBytes = Buffer.from(name);
      const common = commonFields({ data, packed, nameBytes });
      directory.push(directoryEntry({ common, nameBytes, mode, offset }));
      write(Buffer.concat([signature(0x04034b50), common, nameBytes]));
      write(packed);
    }
    const start = offset;
    for (const entry of directory) write(entry);
    write(endOfDirectory(directory.length, offset - start, start));
  } finally {
    closeSync(out);
  }
}

/** What the header before the data and the entry of the directory have in common. */
function commonFields({ data, packed, nameBytes }) {
  const fields = Buffer.alloc(26);
  fields.writeUInt16LE(version, 0);
  fields.writeUInt16LE(deflated, 4);
  fields.writeUInt16LE(firstDay, 8);
  fields.writeUInt32LE(crc32(data), 10);
  fields.writeUInt32LE(packed.length, 14);
  fields.writeUInt32LE(data.length, 18);
  fields.writeUInt16LE(nameBytes.length, 22);
  return fields;
}

function directoryEntry({ common, nameBytes, mode, offset }) {
  const rest = Buffer.alloc(14);
  rest.writeUInt32LE(((regularFile | mode) << 16) >>> 0, 6);
  rest.writeUInt32LE(offset, 10);
  const made = Buffer.alloc(2);
  made.writeUInt16LE(madeOnUnix);
  return Buffer.concat([signature(0x02014b50), made, common, rest, nameBytes]);
}

function endOfDirectory(count, bytes, start) {
  const end = Buffer.alloc(18);
  end.writeUInt16LE(count, 4);
  end.writeUInt16LE(count, 6);
  end.writeUInt32LE(bytes, 8);
  end.writeUInt32LE(start, 12);
  return Buffer.concat([signature(0x06054b50), end]);
}

function signature(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
