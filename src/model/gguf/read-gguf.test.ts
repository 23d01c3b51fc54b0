import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { failureOf, type GgufPart, type GgufParts, gguf, ggufFile } from '../files-for-tests.js';
import type { KnownModel, Model } from '../model.js';
import { readGguf } from './read-gguf.js';

const llamaKeys: Readonly<Record<string, GgufPart>> = {
  'general.architecture': gguf.text('llama'),
  'general.name': gguf.text('Little'),
  'llama.embedding_length': gguf.u32(64),
  'llama.block_count': gguf.u32(2),
  'llama.attention.head_count': gguf.u32(4),
  'llama.attention.head_count_kv': gguf.u32(2),
  'llama.feed_forward_length': gguf.u32(160),
  'llama.context_length': gguf.u32(512),
};
const embedding = { name: 'token_embd.weight', sizes: [64, 320], type: 8, offset: 0 };
const embeddingBytes = 320 * 68;

async function readParts(parts: GgufParts): Promise<Model> {
  await using tree = await makeFakeTree({
    'm.gguf': ggufFile({ tensors: [embedding], dataBytes: embeddingBytes, ...parts }),
  });
  return readGguf(`${tree.folder}/m.gguf`);
}

function known({ description }: Model): KnownModel {
  if (description.family === 'unknown') throw new Error(description.notes.join(' '));
  return description;
}

describe('readGguf', () => {
  it('describes the model by its keys, and the weights by their headers', async () => {
    const model = await readParts({ keys: llamaKeys });
    expect(known(model)).toMatchObject({
      family: 'llama',
      name: 'Little',
      head: 'lm',
      tied: true,
      outputs: 320,
      notes: [],
    });
    expect(known(model).stacks[0]?.layers).toMatchObject([
      { count: 2, hidden: 64, attention: { heads: 4, kvHeads: 2, headDim: 16 } },
    ]);
    expect(model.weights).toMatchObject({ format: 'gguf', bytes: embeddingBytes });
  });

  it('takes a head of its own for untied, and experts for Mixtral', async () => {
    const output = { ...embedding, name: 'output.weight', offset: 21_760 };
    const model = await readParts({
      keys: {
        ...llamaKeys,
        'llama.expert_count': gguf.u32(8),
        'llama.expert_used_count': gguf.u32(2),
      },
      tensors: [embedding, output],
      dataBytes: 2 * embeddingBytes,
    });
    expect(known(model)).toMatchObject({ family: 'mixtral', tied: false });
    expect(known(model).stacks[0]?.layers[0]?.feedForward.experts).toMatchObject({ count: 8 });
  });

  it('derives the sizes of latent attention', async () => {
    const keys: Record<string, GgufPart> = { 'general.architecture': gguf.text('deepseek2') };
    const values = {
      embedding_length: 64,
      block_count: 3,
      'attention.head_count': 4,
      feed_forward_length: 160,
      context_length: 512,
      expert_count: 8,
      expert_used_count: 2,
      expert_shared_count: 1,
      expert_feed_forward_length: 48,
      leading_dense_block_count: 1,
      'attention.kv_lora_rank': 16,
      'attention.key_length': 24,
      'attention.value_length': 16,
      'attention.key_length_mla': 20,
      'attention.value_length_mla': 12,
      'rope.dimension_count': 8,
    };
    for (const [key, value] of Object.entries(values)) keys[`deepseek2.${key}`] = gguf.u32(value);
    const [stack] = known(await readParts({ keys })).stacks;
    expect(stack?.layers[0]?.attention).toMatchObject({
      headDim: 20,
      valueHeadDim: 12,
      latent: { queryRank: null, keyValueRank: 16, ropeDim: 8 },
    });
  });

  it.each([
    ['no architecture', { 'general.architecture': undefined }, 'names no architecture'],
    ['an unknown one', { 'general.architecture': gguf.text('mamba') }, '"mamba" is not known'],
    ['a key missing', { 'llama.block_count': undefined }, 'llama.block_count'],
    [
      'heads that differ from layer to layer',
      { 'llama.attention.head_count_kv': gguf.u32s([1, 2]) },
      'is not one number',
    ],
    ['keys that make no model', { 'llama.embedding_length': gguf.u32(0) }, 'hidden_size'],
  ])('with %s only counts tensors', async (_, changes, words) => {
    const keys: Record<string, GgufPart> = {};
    for (const [key, value] of Object.entries({ ...llamaKeys, ...changes })) {
      if (value !== undefined) keys[key] = value;
    }
    const { description } = await readParts({ keys });
    expect(description).toMatchObject({ family: 'unknown', parameters: 320 * 64 });
    expect(description.notes[0]).toContain(words);
  });

  it('reads all parts of a split file, whichever is named', async () => {
    const more = { name: 'output.weight', sizes: [64], type: 0, offset: 0 };
    await using tree = await makeFakeTree({
      'm-00001-of-00002.gguf': ggufFile({
        keys: llamaKeys,
        tensors: [embedding],
        dataBytes: embeddingBytes,
      }),
      'm-00002-of-00002.gguf': ggufFile({ tensors: [more], dataBytes: 256 }),
    });
    const model = readGguf(`${tree.folder}/m-00002-of-00002.gguf`);
    expect(known(model).tied).toBe(false);
    expect(model.weights?.bytes).toBe(embeddingBytes + 256);
    await tree.remove('m-00001-of-00002.gguf');
    const failure = failureOf(() => readGguf(`${tree.folder}/m-00002-of-00002.gguf`));
    expect(failure).toMatchObject({ code: 'no-file' });
    expect(failure.fact).toContain('m-00001-of-00002.gguf');
  });
});
