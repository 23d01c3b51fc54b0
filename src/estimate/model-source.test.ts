import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readSource } from './estimate-work.js';

const gpt2 = fileURLToPath(new URL('../../bench/truth/configs/gpt2.json', import.meta.url));
const header = '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}';
const weights = Buffer.concat([
  Buffer.from([header.length, 0, 0, 0, 0, 0, 0, 0]),
  Buffer.from(header),
  Buffer.alloc(4),
]);
const index = '{"weight_map":{"a":"part.safetensors"}}';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-source-'));
  for (const name of ['config', 'weights', 'both', 'sharded']) mkdirSync(join(folder, name));
  for (const name of ['config', 'both', 'sharded']) {
    copyFileSync(gpt2, join(folder, name, 'config.json'));
  }
  for (const name of ['weights', 'both']) {
    writeFileSync(join(folder, name, 'model.safetensors'), weights);
  }
  writeFileSync(join(folder, 'sharded', 'part.safetensors'), weights);
  writeFileSync(join(folder, 'sharded', 'model.safetensors.index.json'), index);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe('readSource', () => {
  it.each([
    ['config', 'config/config.json'],
    ['config/config.json', 'config/config.json'],
    ['both', 'both/config.json'],
    ['both/model.safetensors', 'both/config.json'],
    ['sharded', 'sharded/config.json'],
    ['sharded/model.safetensors.index.json', 'sharded/config.json'],
    ['weights', undefined],
    ['weights/model.safetensors', undefined],
  ])('%s is traced by %s', async (path, config) => {
    const source = await readSource(join(folder, path));
    expect(source.config).toBe(config === undefined ? undefined : join(folder, config));
    expect(source.model.weights?.parameters).toBe(path.startsWith('config') ? undefined : 1);
  });
});
