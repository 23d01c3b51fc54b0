import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { failureOf } from '../failure-for-tests.js';
import { safetensorsFile } from '../files-for-tests.js';
import { readSafetensors, readShardedSafetensors } from './read-safetensors.js';

const first = safetensorsFile({ a: { dtype: 'F16', shape: [2], data_offsets: [0, 4] } }, 4);
const second = safetensorsFile({ b: { dtype: 'F16', shape: [3], data_offsets: [0, 6] } }, 6);
const index = {
  metadata: { total_size: 10 },
  weight_map: { a: '1.safetensors', b: '2.safetensors' },
};

describe('readShardedSafetensors', () => {
  it('reads each file of the index once', async () => {
    const weight_map = { ...index.weight_map, c: '1.safetensors' };
    await using tree = await makeFakeTree({
      '1.safetensors': first,
      '2.safetensors': second,
      'index.json': JSON.stringify({ ...index, weight_map }),
    });
    expect(readShardedSafetensors(`${tree.folder}/index.json`)).toMatchObject({
      files: [`${tree.folder}/1.safetensors`, `${tree.folder}/2.safetensors`],
      tensors: 2,
      parameters: 5,
      bytes: 10,
    });
  });

  it.each([
    ['a file that is elsewhere', { weight_map: { a: '../1.safetensors' } }, 'beside it'],
    ['a file of another kind', { weight_map: { a: 'a.bin' } }, 'beside it'],
    ['no file', { metadata: {} }, 'lists no file'],
    ['a list', [], '"[" in place of {'],
  ])('refuses an index with %s', async (_, value, words) => {
    await using tree = await makeFakeTree({ 'index.json': JSON.stringify(value) });
    const failure = failureOf(() => readShardedSafetensors(`${tree.folder}/index.json`));
    expect(failure.code).toBe('bad-safetensors');
    expect(failure.fact).toContain(words);
  });

  it('says which file is missing', async () => {
    await using tree = await makeFakeTree({
      '1.safetensors': first,
      'index.json': JSON.stringify(index),
    });
    const failure = failureOf(() => readShardedSafetensors(`${tree.folder}/index.json`));
    expect(failure.code).toBe('no-file');
    expect(failure.fact).toContain('2.safetensors');
  });
});

describe('readSafetensors', () => {
  it('refuses a tensor that is in two files', async () => {
    await using tree = await makeFakeTree({ '1.safetensors': first, '2.safetensors': first });
    const paths = ['1', '2'].map((name) => `${tree.folder}/${name}.safetensors`);
    const failure = failureOf(() => readSafetensors(paths));
    expect(failure.fact).toContain('2.safetensors');
    expect(failure.fact).toContain('two tensors "a"');
  });
});
