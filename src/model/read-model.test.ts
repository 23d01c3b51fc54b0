import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { Failure } from '../failure.js';
import { ggufFile, safetensorsFile } from './files-for-tests.js';
import { readModel } from './read-model.js';

const config = '{"model_type":"gpt2"}';
const weights = safetensorsFile({ w: { dtype: 'F16', shape: [8], data_offsets: [0, 16] } }, 16);
const index = JSON.stringify({ weight_map: { w: 'model-00001-of-00001.safetensors' } });

async function failure(path: string): Promise<Failure> {
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
    const refused = await failure(`${tree.folder}/${name}`);
    expect(refused.code).toBe('unknown-model');
    expect(refused.fact).toContain(words);
    expect(refused.next).toContain('config.json');
    expect(refused.next).toContain('.gguf');
  });

  it('refuses what is not there, and a folder without a model', async () => {
    await using tree = await makeFakeTree({ 'empty/README.md': '' });
    expect((await failure(`${tree.folder}/nowhere.gguf`)).code).toBe('no-file');
    expect((await failure(`${tree.folder}/empty`)).code).toBe('unknown-model');
  });

  it('does not open what is neither a file nor a folder, where it might wait for ever', async () => {
    await using tree = await makeFakeTree({ 'note.txt': '' });
    const path = `${tree.folder}/model.gguf`;
    const server = createServer();
    server.listen(path);
    await once(server, 'listening');
    try {
      expect((await failure(path)).fact).toContain('neither a file nor a folder');
    } finally {
      server.close();
    }
  });
});
