import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { failureOf, outcomeOf } from '../failure-for-tests.js';
import { memorySource, safetensorsFile } from '../files-for-tests.js';
import { limits } from '../limits.js';
import type { Weights } from '../types.js';
import { WeightTally } from '../weight-tally.js';
import { badSafetensors, readSafetensorsHeader } from './safetensors-header.js';

function read(bytes: Buffer): Weights {
  const tally = new WeightTally();
  readSafetensorsHeader(memorySource(bytes), 'm.safetensors', tally);
  return tally.total('safetensors', [], (what) => badSafetensors('m.safetensors', what));
}

function tensor(dtype: string, shape: readonly number[], begin: number, end: number): object {
  return { dtype, shape, data_offsets: [begin, end] };
}

const whole = safetensorsFile(
  {
    __metadata__: { format: 'pt', note: 'a "quoted" \u{e9}' },
    'layers.0.w': tensor('BF16', [4, 3], 0, 24),
    'layers.1.w': tensor('BF16', [4, 3], 24, 48),
    scale: tensor('F32', [], 48, 52),
    packed: tensor('F4', [6], 52, 55),
    none: tensor('I64', [0, 7], 55, 55),
  },
  55,
);

describe('readSafetensorsHeader', () => {
  it('adds up tensors by type, and groups those that are alike', () => {
    expect(read(whole)).toEqual({
      format: 'safetensors',
      files: [],
      tensors: 5,
      parameters: 31,
      bytes: 55,
      byType: [
        { type: 'BF16', tensors: 2, parameters: 24, bytes: 48 },
        { type: 'F32', tensors: 1, parameters: 1, bytes: 4 },
        { type: 'F4', tensors: 1, parameters: 6, bytes: 3 },
        { type: 'I64', tensors: 1, parameters: 0, bytes: 0 },
      ],
      groups: [
        { name: 'layers.*.w', type: 'BF16', shape: [4, 3], count: 2, bytes: 48 },
        { name: 'scale', type: 'F32', shape: [], count: 1, bytes: 4 },
        { name: 'packed', type: 'F4', shape: [6], count: 1, bytes: 3 },
        { name: 'none', type: 'I64', shape: [0, 7], count: 1, bytes: 0 },
      ],
    });
  });

  it('takes tensors in any order, other fields, and blanks after the header', () => {
    const header = ` {"b":{"extra":[1,{"x":null}],"data_offsets":[1,2],"shape":[1],"dtype":"U8"}, "a":
      {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}   `;
    expect(read(safetensorsFile(header, 2)).bytes).toBe(2);
  });

  it.each([
    ['nothing', Buffer.alloc(0), 'too few'],
    ['a length alone', safetensorsFile('', 0), 'its end in place of {'],
    ['a length beyond the file', whole.subarray(0, 100), 'only 92 follow'],
    ['a length beyond all', Buffer.alloc(8, 0xff), 'the length of its header'],
    ['a list', safetensorsFile('[]', 0), '"[" in place of {'],
    ['half a header', safetensorsFile('{"a":{"dtype":"U8"', 0), 'its end'],
    ['more after the header', safetensorsFile('{}x', 0), 'after the end'],
    ['an unknown type', safetensorsFile({ a: tensor('F7', [1], 0, 1) }, 1), 'unknown type "F7"'],
    ['a type from the prototype', safetensorsFile({ a: tensor('toString', [1], 0, 1) }, 1), 'type'],
    ['no shape', safetensorsFile({ a: { dtype: 'U8', data_offsets: [0, 1] } }, 1), 'lacks'],
    [
      'one offset',
      safetensorsFile({ a: { dtype: 'U8', shape: [1], data_offsets: [0] } }, 1),
      'lacks',
    ],
    [
      'three offsets',
      safetensorsFile({ a: { dtype: 'U8', shape: [1], data_offsets: [0, 1, 2] } }, 1),
      'over 2 numbers',
    ],
    ['a size below 0', safetensorsFile({ a: tensor('U8', [-1], 0, 1) }, 1), 'in place of a number'],
    [
      'a shape that does not fit',
      safetensorsFile({ a: tensor('F32', [2], 0, 4) }, 4),
      '8 bytes by',
    ],
    [
      'a shape without end',
      safetensorsFile({ a: tensor('U8', [2 ** 40, 2 ** 40], 0, 1) }, 1),
      'makes no size',
    ],
    ['half a byte', safetensorsFile({ a: tensor('F4', [3], 0, 1) }, 1), 'makes no size'],
    [
      'an overlap',
      safetensorsFile({ a: tensor('U8', [2], 0, 2), b: tensor('U8', [2], 1, 3) }, 3),
      'overlap at byte 1',
    ],
    [
      'a hole',
      safetensorsFile({ a: tensor('U8', [1], 0, 1), b: tensor('U8', [1], 2, 3) }, 3),
      'no tensor covers bytes 1 to 2',
    ],
    ['data cut off', whole.subarray(0, whole.length - 1), 'but only 54 follow'],
    ['data too many', Buffer.concat([whole, Buffer.alloc(3)]), '3 bytes follow the last'],
    [
      'a name that is there twice',
      safetensorsFile(
        '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        0,
      ),
      'two tensors "a"',
    ],
    [
      'too long a name',
      safetensorsFile({ ['x'.repeat(limits.nameBytes + 1)]: tensor('U8', [0], 0, 0) }, 0),
      `more than ${limits.nameBytes} bytes`,
    ],
    ['metadata that nests', safetensorsFile('{"__metadata__":{"a":{}}}', 0), 'in place of "'],
    [
      'a pointer of Git LFS',
      Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n'),
      'Git LFS pointer',
    ],
  ])('refuses %s', (_, bytes, words) => {
    const failure = failureOf(() => read(bytes));
    expect(failure).toMatchObject({ kind: 'input', code: 'bad-safetensors' });
    expect(failure.fact).toContain('m.safetensors');
    expect(failure.fact).toContain(words);
  });

  it('reads or refuses any bytes, and any change to a good file', () => {
    const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
          fc.string().map((text) => safetensorsFile(text, 0)),
          fc.json().map((text) => safetensorsFile(text, 0)),
          fc.nat(whole.length).map((length) => whole.subarray(0, length)),
          fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) => {
            const changed = Buffer.from(whole);
            for (const [at, byte] of changes) changed[at] = byte;
            return changed;
          }),
        ),
        (bytes) => {
          expect(['read', 'bad-safetensors']).toContain(outcomeOf(() => read(bytes)));
        },
      ),
      { numRuns: 3000 },
    );
  });
});
