import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  encodeRecord,
  headerBytes,
  joinPlanes,
  layoutOf,
  packPart,
  prefixBytes,
  readHeader,
  splitPlanes,
  unpackPart,
} from './record.js';
import { isDataType, itemBytes, type Part } from './value.js';

const dtypes = fc.constantFrom(...Object.keys(itemBytes).filter(isDataType));

function smooth(length: number): Float32Array {
  return Float32Array.from({ length }, (_, index) => 20 + Math.sin(index / 500));
}

function partOf(bytes: Uint8Array, dtype: Part['dtype'] = 'float32'): Part {
  return { name: '', kind: 'array', dtype, shape: [bytes.length / itemBytes[dtype]], bytes };
}

describe('planes', () => {
  it('come together again, for every width', () => {
    fc.assert(
      fc.property(fc.constantFrom(1, 2, 4, 8), fc.uint8Array({ maxLength: 100 }), (width, any) => {
        const bytes = any.subarray(0, any.length - (any.length % width));
        expect(joinPlanes(splitPlanes(bytes, width))).toEqual(new Uint8Array(bytes));
      }),
    );
  });
});

describe('a packed part', () => {
  it('is what it was, whatever the bytes', () => {
    fc.assert(
      fc.property(dtypes, fc.uint8Array({ maxLength: 5000 }), (dtype, any) => {
        const bytes = any.subarray(0, any.length - (any.length % itemBytes[dtype]));
        expect(unpackPart(packPart(partOf(bytes, dtype), true))?.bytes).toEqual(
          new Uint8Array(bytes),
        );
      }),
    );
  });

  it('has the planes of smooth numbers compressed, and their noise as it is', () => {
    const noise = Float32Array.from(smooth(50_000), (value, index) =>
      Math.fround(value * (1 + ((index * 7919) % 65_521) / 6_552_100)),
    );
    const { planes } = packPart(partOf(new Uint8Array(noise.buffer)), true);
    expect(planes.map(({ codec }) => codec)).toContain('deflate');
    expect(planes.map(({ codec }) => codec)).toContain('none');
  });

  it('is not compressed where that does not pay, nor when it is not wanted', () => {
    let state = 1;
    const noise = Uint8Array.from({ length: 100_000 }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state >>> 24;
    });
    expect(packPart(partOf(noise), true).planes).toHaveLength(1);
    expect(packPart(partOf(new Uint8Array(4096)), false).planes[0]?.codec).toBe('none');
  });

  it('keeps numbers that repeat exactly in one piece, which shrinks more', () => {
    const levels = Float32Array.from(
      { length: 60_000 },
      (_, index) => ((index * index) % 251) / 255,
    );
    const { planes } = packPart(partOf(new Uint8Array(levels.buffer)), true);
    expect(planes.map(({ codec }) => codec)).toEqual(['deflate']);
  });

  it('is refused when a byte changed, and when it would expand beyond reason', () => {
    const packed = packPart(partOf(new Uint8Array(smooth(5000).buffer)), true);
    const [first, ...rest] = packed.planes;
    if (first === undefined) throw new Error('there is no plane');
    const bytes = first.bytes.slice();
    bytes[0] = (bytes[0] ?? 0) ^ 1;
    expect(unpackPart({ ...packed, planes: [{ ...first, bytes }, ...rest] })).toBeUndefined();
    const huge = { ...packed, shape: [2 ** 40], planes: packed.planes };
    expect(unpackPart(huge)).toBeUndefined();
  });
});

describe('the header of a file', () => {
  it('is read or refused, whatever the text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(() => readHeader(text)).not.toThrow();
      }),
    );
  });

  it('is read or refused when one field of a good one is something else', () => {
    const good = {
      key: 'k',
      dictionary: false,
      parts: [{ name: '', kind: 'array', dtype: 'float32', shape: [2], planes: [['none', 8, 1]] }],
    };
    expect(readHeader(JSON.stringify(good))).toBeDefined();
    const odd = fc.jsonValue().filter((value) => JSON.stringify(value) !== '[2]');
    fc.assert(
      fc.property(
        fc.constantFrom('name', 'kind', 'dtype', 'shape', 'planes'),
        odd,
        (field, value) => {
          const part = { ...good.parts[0], [field]: value };
          const read = readHeader(JSON.stringify({ ...good, parts: [part] }));
          if (field !== 'name' || typeof value !== 'string') expect(read).toBeUndefined();
        },
      ),
    );
  });

  it('is found by its prefix, and only by a whole one', () => {
    const file = Buffer.concat(
      encodeRecord({
        key: 'a',
        dictionary: false,
        parts: [packPart(partOf(new Uint8Array(8)), true)],
      }),
    );
    const found = headerBytes(file.subarray(0, prefixBytes));
    expect(found).toBeDefined();
    const { length = 0, crc = 0 } = found ?? {};
    const header = file.subarray(prefixBytes, prefixBytes + length);
    expect(layoutOf(header, crc)).toMatchObject({ key: 'a', totalBytes: file.length });
    expect(layoutOf(header, crc + 1)).toBeUndefined();
    expect(headerBytes(file.subarray(0, prefixBytes - 1))).toBeUndefined();
    expect(headerBytes(Buffer.from('PLIMBUF1\xff\xff\xff\xff0000', 'latin1'))).toBeUndefined();
  });
});
