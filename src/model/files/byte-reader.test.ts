import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { failureOf } from '../files-for-tests.js';
import { ByteReader, type ByteSource } from './byte-reader.js';

const fail = (what: string): Failure =>
  new Failure({ kind: 'input', code: 'bad', fact: what, next: '' });

/** Gives at most a few bytes at a time, as a slow file system may. */
function trickle(bytes: Buffer, most: number): ByteSource {
  return {
    size: bytes.length,
    read: (into, position) => bytes.copy(into, 0, position, position + Math.min(most, into.length)),
  };
}

describe('ByteReader', () => {
  it('reads the same whatever the pieces', () => {
    const step = fc.oneof(
      fc.constantFrom('u8', 'u32', 'peek'),
      fc.record({ take: fc.nat(9) }),
      fc.record({ skip: fc.nat(9) }),
    );
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 20, maxLength: 80 }),
        fc.integer({ min: 1, max: 30 }),
        fc.array(step, { maxLength: 20 }),
        (array, most, steps) => {
          const bytes = Buffer.from(array);
          const reader = new ByteReader(trickle(bytes, most), 2, bytes.length - 3, fail);
          let at = 2;
          for (const one of steps) {
            const length = lengthOf(one);
            if (at + length > bytes.length - 3) {
              expect(() => doStep(reader, one)).toThrow(Failure);
              return;
            }
            const wanted = bytes.subarray(at, at + length);
            const got = doStep(reader, one);
            if (one === 'u8') expect(got).toBe(wanted[0]);
            else if (one === 'u32') expect(got).toBe(wanted.readUInt32LE());
            else if (one === 'peek') expect(got).toBe(at < bytes.length - 3 ? bytes[at] : -1);
            else if ('take' in one) expect(got).toEqual(new Uint8Array(wanted));
            at += length;
            expect(reader.position).toBe(at);
            expect(reader.left).toBe(bytes.length - 3 - at);
          }
        },
      ),
    );
  });

  it('takes no count that is not exact', () => {
    const reader = new ByteReader(trickle(Buffer.alloc(16, 0xff), 99), 0, 16, fail);
    expect(failureOf(() => reader.u64('the count')).fact).toContain('the count');
  });
});

type Step = 'u8' | 'u32' | 'peek' | { take: number } | { skip: number };

function lengthOf(step: Step): number {
  if (typeof step === 'string') return { u8: 1, u32: 4, peek: 0 }[step];
  return 'take' in step ? step.take : step.skip;
}

function doStep(reader: ByteReader, step: Step): unknown {
  if (typeof step === 'string') return reader[step]();
  return 'take' in step ? reader.bytes(step.take) : reader.skip(step.skip);
}
