import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { failureOf, gguf, ggufFile, memorySource, outcomeOf } from '../files-for-tests.js';
import { limits } from '../limits.js';
import type { Weights } from '../model.js';
import { WeightTally } from '../weight-tally.js';
import { badGguf, type GgufHeader, readGgufHeader } from './gguf-header.js';

function read(bytes: Buffer): GgufHeader & { weights: Weights } {
  const tally = new WeightTally();
  const header = readGgufHeader(memorySource(bytes), 'm.gguf', tally);
  const weights = tally.total('gguf', [], (what) => badGguf('m.gguf', what));
  return { ...header, weights };
}

const parts = {
  keys: {
    'general.architecture': gguf.text('llama'),
    'llama.block_count': gguf.u32(2),
    'llama.context_length': gguf.u64(8192),
    'tokenizer.ggml.tokens': gguf.texts(['<s>', 'a', '\u{e9}']),
    'tokenizer.ggml.scores': gguf.u32s([1, 2, 3]),
    nested: gguf.lists([gguf.u32s([1]), gguf.texts(['x'])]),
    'tokenizer.chat_template': gguf.text('x'.repeat(5000)),
    'general.quantized': gguf.bool(true),
  },
  tensors: [
    { name: 'token_embd.weight', sizes: [32, 3], type: 1, offset: 0 },
    { name: 'blk.0.ffn_up.weight', sizes: [256, 2], type: 12, offset: 192 },
    { name: 'blk.1.ffn_up.weight', sizes: [256, 2], type: 12, offset: 480 },
    { name: 'output_norm.weight', sizes: [32], type: 0, offset: 768 },
  ],
  dataBytes: 896,
};
const whole = ggufFile(parts);

describe('readGgufHeader', () => {
  it('keeps what is short, and of the rest only how long it is', () => {
    expect(Object.fromEntries(read(whole).keys)).toEqual({
      'general.architecture': 'llama',
      'llama.block_count': 2,
      'llama.context_length': 8192,
      'tokenizer.ggml.tokens': { length: 3 },
      'tokenizer.ggml.scores': { length: 3 },
      nested: { length: 2 },
      'tokenizer.chat_template': { length: 5000 },
      'general.quantized': true,
    });
  });

  it('sums tensors by their type and shape', () => {
    const { weights, embeddingShape } = read(whole);
    expect(embeddingShape).toEqual([3, 32]);
    expect(weights.byType).toEqual([
      { type: 'Q4_K', tensors: 2, parameters: 1024, bytes: 576 },
      { type: 'F16', tensors: 1, parameters: 96, bytes: 192 },
      { type: 'F32', tensors: 1, parameters: 32, bytes: 128 },
    ]);
    expect(weights.groups[1]).toEqual({
      name: 'blk.*.ffn_up.weight',
      type: 'Q4_K',
      shape: [2, 256],
      count: 2,
      bytes: 576,
    });
  });

  it('takes version 2 and another alignment', () => {
    const keys = { 'general.alignment': gguf.u32(64) };
    const tensors = [{ name: 'a', sizes: [1], type: 0, offset: 64 }];
    const bytes = ggufFile({ version: 2, keys, tensors, dataBytes: 68, alignment: 64 });
    expect(read(bytes).weights.bytes).toBe(4);
  });

  const one = { name: 'a', sizes: [32], type: 0, offset: 0 };
  it.each([
    ['nothing', Buffer.alloc(0), 'does not begin'],
    ['another file', Buffer.from('PK\u0003\u0004 and more'), 'does not begin'],
    ['version 1', ggufFile({ version: 1 }), 'version is 1'],
    ['the other byte order', ggufFile({ version: 0x3000000 }), 'big-endian'],
    ['a header cut off', whole.subarray(0, 60), 'in the middle of its header'],
    ['data cut off', whole.subarray(0, whole.length - 1), 'output_norm.weight'],
    [
      'an unknown type of value',
      ggufFile({ keys: { a: [13, Buffer.alloc(8)] } }),
      'unknown type 13',
    ],
    ['an unknown type of tensor', ggufFile({ tensors: [{ ...one, type: 4 }] }), 'unknown type'],
    [
      'five dimensions',
      ggufFile({ tensors: [{ ...one, sizes: [1, 1, 1, 1, 1] }] }),
      '5 dimensions',
    ],
    ['a row of half a block', ggufFile({ tensors: [{ ...one, sizes: [16, 2], type: 2 }] }), 'Q4_0'],
    [
      'a shape without end',
      ggufFile({ tensors: [{ ...one, sizes: [2 ** 40, 2 ** 40] }] }),
      'shape',
    ],
    [
      'a place between',
      ggufFile({ tensors: [{ ...one, offset: 8 }], dataBytes: 200 }),
      'multiple of 32',
    ],
    [
      'an overlap',
      ggufFile({ tensors: [one, { ...one, name: 'b', offset: 96 }], dataBytes: 300 }),
      '"b" overlaps',
    ],
    [
      'one tensor twice',
      ggufFile({ tensors: [one, { ...one, offset: 128 }], dataBytes: 300 }),
      'two',
    ],
    ['an alignment of 0', ggufFile({ keys: { 'general.alignment': gguf.u32(0) } }), 'alignment'],
    [
      'an alignment as text',
      ggufFile({ keys: { 'general.alignment': gguf.text('32') } }),
      'alignment',
    ],
    [
      'too long a name',
      ggufFile({ keys: { ['k'.repeat(limits.nameBytes + 1)]: gguf.u32(1) } }),
      'the name of key 1',
    ],
    [
      'a list that claims to be long',
      ggufFile({ keys: { a: [9, Buffer.from('080000000000000000010000', 'hex')] } }),
      'over 4000000 elements',
    ],
    [
      'lists in lists in lists',
      ggufFile({
        keys: {
          a: Array.from({ length: 7 }).reduce<ReturnType<typeof gguf.lists>>(
            (inner) => gguf.lists([inner]),
            gguf.lists([]),
          ),
        },
      }),
      'nest too deep',
    ],
    ['a pointer of Git LFS', Buffer.from('version https://git-lfs.github.com/spec/v1\n'), 'LFS'],
  ])('refuses %s', (_, bytes, words) => {
    const failure = failureOf(() => read(bytes));
    expect(failure).toMatchObject({ kind: 'input', code: 'bad-gguf' });
    expect(failure.fact).toContain('m.gguf');
    expect(failure.fact).toContain(words);
  });

  it('refuses counts that no file holds, before it reads on', () => {
    const bytes = ggufFile({});
    bytes.writeBigUInt64LE(2n ** 63n, 8);
    expect(failureOf(() => read(bytes)).fact).toContain('the number of tensors');
    bytes.writeBigUInt64LE(0n, 8);
    bytes.writeBigUInt64LE(2n ** 40n, 16);
    expect(failureOf(() => read(bytes)).fact).toContain('1099511627776 keys');
  });

  it('reads or refuses any bytes, and any change to a good file', () => {
    const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array().map((bytes) => Buffer.concat([whole.subarray(0, 24), bytes])),
          fc.nat(whole.length).map((length) => whole.subarray(0, length)),
          fc.array(change, { minLength: 1, maxLength: 4 }).map((changes) => {
            const changed = Buffer.from(whole);
            for (const [at, byte] of changes) changed[at] = byte;
            return changed;
          }),
        ),
        (bytes) => {
          expect(['read', 'bad-gguf']).toContain(outcomeOf(() => read(bytes)));
        },
      ),
      { numRuns: 3000 },
    );
  });
});
