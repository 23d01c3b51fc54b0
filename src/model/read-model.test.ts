import { once } from 'node:events';
import { createServer } from 'node:net';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { Failure } from '../failure.js';
import { badSafetensors, readSafetensorsHeader } from './files/safetensors.js';
import {
  failureOf,
  ggufFile,
  memorySource,
  outcomeOf,
  safetensorsFile,
} from './files-for-tests.js';
import { limits } from './limits.js';
import {
  chooseInFolder,
  readModel,
  readSafetensors,
  readShardedSafetensors,
} from './read-model.js';
import type { Weights } from './types.js';
import { WeightTally } from './weight-tally.js';

const config = '{"model_type":"gpt2"}';
const weights = safetensorsFile({ w: { dtype: 'F16', shape: [8], data_offsets: [0, 16] } }, 16);
const index = JSON.stringify({ weight_map: { w: 'model-00001-of-00001.safetensors' } });

async function readingFailure(path: string): Promise<Failure> {
  try {
    await readModel(path);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('no Failure was thrown');
}

describe('readModel', () => {
  it('reads a config, alone or in its folder', async () => {
    await using tree = await makeFakeTree({ 'm/config.json': config });
    for (const path of [`${tree.folder}/m`, `${tree.folder}/m/config.json`]) {
      const model = await readModel(path);
      expect(model).toMatchObject({ path, description: { family: 'gpt2' } });
      expect(model).not.toHaveProperty('weights');
    }
  });

  it('takes the config beside weights, named by any of their files', async () => {
    await using tree = await makeFakeTree({
      'config.json': config,
      'model.safetensors.index.json': index,
      'model-00001-of-00001.safetensors': weights,
    });
    for (const name of ['', 'model.safetensors.index.json', 'model-00001-of-00001.safetensors']) {
      expect(await readModel(`${tree.folder}/${name}`)).toMatchObject({
        description: { family: 'gpt2', parameters: 124_439_808 },
        weights: { parameters: 8, bytes: 16 },
      });
    }
  });

  it('takes what the headers tell where the family is not known', async () => {
    await using tree = await makeFakeTree({
      'alone/model.safetensors': weights,
      'strange/model.safetensors': weights,
      'strange/config.json': '{"model_type":"mamba"}',
    });
    expect((await readModel(`${tree.folder}/alone/model.safetensors`)).description).toMatchObject({
      family: 'unknown',
      modelType: 'unknown',
      parameters: 8,
    });
    expect((await readModel(`${tree.folder}/strange`)).description).toMatchObject({
      family: 'unknown',
      modelType: 'mamba',
      parameters: 8,
    });
  });

  it('knows a GGUF file by its ending or by its first bytes', async () => {
    await using tree = await makeFakeTree({ 'm.gguf': ggufFile({}), blob: ggufFile({}) });
    for (const name of ['m.gguf', 'blob']) {
      expect((await readModel(`${tree.folder}/${name}`)).weights?.format).toBe('gguf');
    }
  });

  it.each([
    ['pytorch_model.bin', 'a pickle'],
    ['model.onnx', 'unknown file type; for a script use --script'],
    ['empty', 'unknown file type; for a script use --script'],
  ])('refuses %s and says what it takes', async (name, words) => {
    await using tree = await makeFakeTree({ [name]: '' });
    const refused = await readingFailure(`${tree.folder}/${name}`);
    expect(refused.code).toBe('unknown-model');
    expect(refused.fact).toContain(words);
    expect(refused.next).toContain('config.json');
    expect(refused.next).toContain('.gguf');
  });

  it('refuses what is not there, and a folder without a model', async () => {
    await using tree = await makeFakeTree({ 'empty/README.md': '' });
    expect((await readingFailure(`${tree.folder}/nowhere.gguf`)).code).toBe('no-file');
    expect((await readingFailure(`${tree.folder}/empty`)).code).toBe('unknown-model');
  });

  it('does not open what is neither a file nor a folder, where it might wait for ever', async () => {
    await using tree = await makeFakeTree({ 'note.txt': '' });
    const path = `${tree.folder}/model.gguf`;
    const server = createServer();
    server.listen(path);
    await once(server, 'listening');
    try {
      expect((await readingFailure(path)).fact).toContain('neither a file nor a folder');
    } finally {
      server.close();
    }
  });
});

describe('chooseInFolder', () => {
  it.each([
    ['a config alone', ['config.json', 'README.md'], { config: 'config.json', notes: [] }],
    [
      'an index before single files',
      ['config.json', 'consolidated.safetensors', 'model.safetensors.index.json'],
      {
        config: 'config.json',
        weights: { format: 'index', name: 'model.safetensors.index.json' },
        notes: [],
      },
    ],
    [
      'the usual name among several',
      ['adapter.safetensors', 'model.safetensors'],
      { weights: { format: 'safetensors', name: 'model.safetensors' }, notes: [] },
    ],
    [
      'weights of another name',
      ['config.json', 'diffusion.safetensors'],
      {
        config: 'config.json',
        weights: { format: 'safetensors', name: 'diffusion.safetensors' },
        notes: [],
      },
    ],
    [
      'GGUF before the config beside it',
      ['config.json', 'm.Q4_K_M.gguf'],
      { weights: { format: 'gguf', name: 'm.Q4_K_M.gguf' }, notes: [] },
    ],
    [
      'a split GGUF by its first part',
      ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf'],
      { weights: { format: 'gguf', name: 'm-00001-of-00002.gguf' }, notes: [] },
    ],
  ])('takes %s', (_, names, choice) => {
    expect(chooseInFolder(names)).toEqual(choice);
  });

  it.each([
    ['nothing', ['README.md'], 'no config.json and no weights'],
    ['several GGUF models', ['a.gguf', 'b.gguf', 'config.json'], '2 GGUF models'],
    ['several weights without an index', ['a.safetensors', 'b.safetensors'], '2 safetensors files'],
  ])('refuses %s', (_, names, words) => {
    expect(chooseInFolder(names)).toMatchObject({ why: expect.stringContaining(words) });
  });

  it('goes by the config where weights cannot be told apart, and says so', () => {
    const choice = chooseInFolder(['a.safetensors', 'b.safetensors', 'config.json']);
    expect(choice).toMatchObject({
      config: 'config.json',
      notes: [expect.stringContaining('2 safetensors files')],
    });
    expect(choice).not.toHaveProperty('weights');
  });
});

const first = safetensorsFile({ a: { dtype: 'F16', shape: [2], data_offsets: [0, 4] } }, 4);
const second = safetensorsFile({ b: { dtype: 'F16', shape: [3], data_offsets: [0, 6] } }, 6);
const writtenIndex = {
  metadata: { total_size: 10 },
  weight_map: { a: '1.safetensors', b: '2.safetensors' },
};

describe('readShardedSafetensors', () => {
  it('reads each file of the index once', async () => {
    const weight_map = { ...writtenIndex.weight_map, c: '1.safetensors' };
    await using tree = await makeFakeTree({
      '1.safetensors': first,
      '2.safetensors': second,
      'index.json': JSON.stringify({ ...writtenIndex, weight_map }),
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
      'index.json': JSON.stringify(writtenIndex),
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
