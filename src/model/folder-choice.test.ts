import { describe, expect, it } from 'vitest';
import { chooseInFolder } from './folder-choice.js';

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
