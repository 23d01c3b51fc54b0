import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import type { Stack } from '../../model/model.js';
import { readModel } from '../../model/read-model.js';
import { filledInput, tokensPerSample } from './plan-input.js';

const path = { kind: 'path', path: 'config.json' } as const;
const vision = { kind: 'torchvision', name: 'resnet50' } as const;
const script = { kind: 'script', path: 'train.py', args: [] } as const;

async function stacksOf(name: string): Promise<readonly Stack[]> {
  const { description } = await readModel(join(root, 'bench/truth/configs', `${name}.json`));
  return description.family === 'unknown' ? [] : description.stacks;
}

describe('filledInput', () => {
  it.each([
    ['gpt2', { sequence: 1024 }],
    ['bert-base', { sequence: 512 }],
    ['llama-2-7b', { sequence: 2048 }],
    ['t5-base', { sequence: 1024 }],
    ['vit-base', { image: 224 }],
  ])('gives %s what it needs', async (name, expected) => {
    const stacks = await stacksOf(name);
    expect(filledInput(path, stacks, {})).toEqual({
      sequence: undefined,
      image: undefined,
      ...expected,
    });
  });

  it('leaves what was given, and the edge of an image as --seq', async () => {
    expect(filledInput(path, await stacksOf('gpt2'), { sequence: 64 }).sequence).toBe(64);
    expect(filledInput(path, await stacksOf('vit-base'), { sequence: 384 })).toEqual({
      sequence: 384,
      image: undefined,
    });
    expect(filledInput(vision, [], { sequence: 384 })).toEqual({ sequence: 384 });
  });

  it('knows the usual sizes where no config tells', () => {
    expect(filledInput(vision, [], {})).toEqual({ image: 224 });
    expect(filledInput(script, [], {})).toEqual({});
    expect(filledInput(path, [], {})).toEqual({ sequence: 1024, image: undefined });
    expect(filledInput(path, [], { image: 96 })).toEqual({ sequence: undefined, image: 96 });
  });

  it('gives a model of images and text both', async () => {
    const both = [...(await stacksOf('vit-base')), ...(await stacksOf('gpt2'))];
    expect(filledInput(path, both, {})).toEqual({ sequence: 1024, image: 224 });
    expect(filledInput(path, both, { sequence: 77 })).toEqual({ sequence: 77, image: 224 });
  });
});

describe('tokensPerSample', () => {
  it('counts tokens, patches, or both', async () => {
    const text = await stacksOf('gpt2');
    const images = await stacksOf('vit-base');
    expect(tokensPerSample(path, text, { sequence: 512 })).toBe(512);
    expect(tokensPerSample(path, images, { image: 224 })).toBe(196);
    expect(tokensPerSample(path, images, { sequence: 224 })).toBe(196);
    expect(tokensPerSample(path, [...images, ...text], { sequence: 4, image: 224 })).toBe(200);
    expect(tokensPerSample(vision, [], { sequence: 224 })).toBe(196);
    expect(tokensPerSample(script, [], {})).toBe(512);
  });
});
