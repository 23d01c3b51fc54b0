import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { assert, integer, nat, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { recordedNames, recordedPath } from '../made-snapshot-for-tests.js';
import { XzReader } from './xz-reader.js';

function unpack(packed: Uint8Array, pieceBytes = 65_536): Buffer {
  const parts: Uint8Array[] = [];
  const reader = new XzReader((bytes) => {
    parts.push(bytes.slice());
    return true;
  });
  for (let at = 0; at < packed.length; at += pieceBytes) {
    reader.push(packed.subarray(at, at + pieceBytes));
  }
  reader.end();
  return Buffer.concat(parts);
}

/** By `xz -dc | sha256sum`. */
const sums = {
  steady: '40dfa04d4b11fc6daf1cd674d7e6a55bc8fd0852dd41c0c9dcc5651599de1436',
  leak: '6552ac5df0d5e4521542245d0ba0a6424dd4118dab4f6d9c0d501bb616d857a1',
  oom: 'c5ba678dd12fab270168202624bbaa1c218762a3a18f6c6a87f7049d5684a953',
} as const;

/** `printf hello | xz --check=...`, as `xxd -p` shows it. */
const hellos = {
  none: 'fd377a585a000000ff12d9410200210116000000742fe5a301000468656c6c6f0000000000011505b0a7596706729e7a010000000000595a',
  crc32:
    'fd377a585a0000016922de360200210116000000742fe5a301000468656c6c6f0000000086a6103600011905bce8eccb9042990d010000000001595a',
  crc64:
    'fd377a585a000004e6d6b4460200210116000000742fe5a301000468656c6c6f00000000b137b9dbe5da1e9b00011d05b82d80af1fb6f37d010000000004595a',
  sha256:
    'fd377a585a00000ae1fb0ca10200210116000000742fe5a301000468656c6c6f000000002cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824000135051283ddf2189b4b9a01000000000a595a',
} as const;

const oom = readFileSync(recordedPath('oom'));

describe('unpacking .xz', () => {
  it.each(recordedNames)('gives what xz gives: %s', (name) => {
    const unpacked = unpack(readFileSync(recordedPath(name)));
    expect(createHash('sha256').update(unpacked).digest('hex')).toBe(sums[name]);
  });

  it.each(Object.entries(hellos))('checks the sum of kind %s', (_, hex) => {
    const packed = Buffer.from(hex, 'hex');
    expect(unpack(packed).toString()).toBe('hello');
  });

  it.each([1, 7, 1000])('takes its bytes in pieces of %i', (pieceBytes) => {
    expect(unpack(oom, pieceBytes).equals(unpack(oom))).toBe(true);
  });

  it('stops when no more is wanted', () => {
    let calls = 0;
    const reader = new XzReader(() => {
      calls += 1;
      return false;
    });
    reader.push(oom);
    expect([calls, reader.isDone]).toEqual([1, true]);
  });

  it('knows an end that came too early', () => {
    for (const share of [0.001, 0.1, 0.5, 0.99]) {
      const cut = oom.subarray(0, Math.floor(oom.length * share));
      expect(() => unpack(cut)).toThrow(expect.objectContaining({ code: 'bad-archive' }));
    }
  });

  it('refuses a dictionary that no usual xz makes', () => {
    const packed = Buffer.from(hellos.none, 'hex');
    // The size of the dictionary stands in byte 16; the sum of the header no longer fits, either.
    packed[16] = 40;
    expect(() => unpack(packed)).toThrow(Failure);
  });

  it('finds out a changed byte wherever it is: header, index and footer included', () => {
    const packed = Buffer.from(hellos.crc64, 'hex');
    for (let at = 0; at < packed.length; at += 1) {
      for (const by of [1, 2, 0x80, 0xff]) {
        const changed = Buffer.from(packed);
        changed[at] = (changed[at] ?? 0) ^ by;
        expect(() => unpack(changed)).toThrow(expect.objectContaining({ code: 'bad-archive' }));
      }
    }
  });

  it('refuses the head of a stream whose block was made to look like its end', () => {
    // The first byte after the head becomes the mark of the index.
    const changed = Uint8Array.from(oom);
    changed[12] = 0;
    expect(() => unpack(changed)).toThrow(expect.objectContaining({ code: 'bad-archive' }));
  });

  it('finds out each changed byte', () => {
    assert(
      property(nat(oom.length - 1), integer({ min: 1, max: 255 }), (at, by) => {
        const changed = Uint8Array.from(oom);
        changed[at] = (changed[at] ?? 0) ^ by;
        expect(() => unpack(changed)).toThrow(expect.objectContaining({ code: 'bad-archive' }));
      }),
      { numRuns: 60 },
    );
  });
});
