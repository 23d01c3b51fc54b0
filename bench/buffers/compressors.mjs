import zlib from 'node:zlib';
import { joinPlanes, packPart, splitPlanes, unpackPart } from '../../dist/buffers/format/pack.js';

const bytesOf = (array) => new Uint8Array(array.buffer);
const shuffled = (array) => Buffer.concat(splitPlanes(bytesOf(array), 4));
function unshuffled(bytes) {
  const length = bytes.length / 4;
  return joinPlanes(
    [0, 1, 2, 3].map((plane) => bytes.subarray(plane * length, (plane + 1) * length)),
  );
}
const quality = (value) => ({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: value } });
const over = (pack, unpack) => ({
  pack: (array) => pack(shuffled(array)),
  unpack: (packed) => unshuffled(unpack(packed)),
  bytes: (packed) => packed.length,
});

/** Ways to keep numbers, each with its way back. zstd only where this Node has it. */
export const compressors = {
  none: {
    pack: (array) => Buffer.from(bytesOf(array)),
    unpack: (packed) => new Uint8Array(packed),
    bytes: (packed) => packed.length,
  },
  gzip: {
    pack: (array) => zlib.gzipSync(bytesOf(array)),
    unpack: (packed) => zlib.gunzipSync(packed),
    bytes: (packed) => packed.length,
  },
  'shuffle, deflate 1': over(
    (bytes) => zlib.deflateRawSync(bytes, { level: 1 }),
    zlib.inflateRawSync,
  ),
  'shuffle, deflate 6': over((bytes) => zlib.deflateRawSync(bytes), zlib.inflateRawSync),
  'shuffle, brotli 1': over(
    (bytes) => zlib.brotliCompressSync(bytes, quality(1)),
    zlib.brotliDecompressSync,
  ),
  'shuffle, brotli 4': over(
    (bytes) => zlib.brotliCompressSync(bytes, quality(4)),
    zlib.brotliDecompressSync,
  ),
  ...(zlib.zstdCompressSync && {
    'shuffle, zstd': over((bytes) => zlib.zstdCompressSync(bytes), zlib.zstdDecompressSync),
  }),
  plimsoll: {
    pack: (array) =>
      packPart(
        { name: '', kind: 'array', dtype: 'float32', shape: [array.length], bytes: bytesOf(array) },
        true,
      ),
    unpack: (part) => unpackPart(part).bytes,
    bytes: (part) => part.planes.reduce((sum, { bytes }) => sum + bytes.length, 0),
  },
};
