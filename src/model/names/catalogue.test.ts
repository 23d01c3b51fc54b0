import { assert, nat, property, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { describeConfig } from '../config/describe-config.js';
import { nameKey, parseCatalogue } from './catalogue.js';
import { shippedCatalogue } from './find-model.js';

const { models } = shippedCatalogue();

describe('the catalogue', () => {
  it('has at least 120 models, each under a name of its own', () => {
    expect(models.length).toBeGreaterThanOrEqual(120);
    const keys = models.flatMap(({ name, also }) => [...new Set([name, ...also].map(nameKey))]);
    expect(keys.filter((key, index) => keys.indexOf(key) !== index)).toEqual([]);
  });

  it.each(models)('counts $name within 0.5 % of the published parameters', (model) => {
    const { parameters, notes } = describeConfig(model.config, model.name);
    expect(Math.abs(Number(parameters) / model.parameters - 1)).toBeLessThan(0.005);
    expect(notes.filter((note) => !note.startsWith('Generic:'))).toEqual([]);
  });

  it.each([
    ['llama-3-8b', 'meta-llama/Meta-Llama-3-8B'],
    ['meta-llama/Meta-Llama-3-8B', 'meta-llama/Meta-Llama-3-8B'],
    ['llama3:8b', 'meta-llama/Meta-Llama-3-8B'],
    ['Llama 3.1 8B Instruct', 'meta-llama/Llama-3.1-8B'],
    ['Qwen2.5-7B-Instruct', 'Qwen/Qwen2.5-7B-Instruct'],
    ['Qwen2.5-Coder-7B', 'Qwen/Qwen2.5-7B-Instruct'],
    ['qwen2.5_7b', 'Qwen/Qwen2.5-7B'],
    ['calm3-22b', 'cyberagent/calm3-22b-chat'],
    ['cyberagent/calm3-22b-chat', 'cyberagent/calm3-22b-chat'],
    ['unsloth/gemma-2-9b-it', 'google/gemma-2-9b'],
    ['mistral-7b', 'mistralai/Mistral-7B-v0.1'],
    ['gpt2', 'openai-community/gpt2'],
    ['bert-base-uncased', 'google-bert/bert-base-uncased'],
    ['llama-2-7b-chat-hf', 'meta-llama/Llama-2-7b-hf'],
  ])('finds %s', (typed, name) => {
    expect(shippedCatalogue().find(typed)?.name).toBe(name);
  });

  it.each([
    ['Qwen2.5-7B', 131_072],
    ['Qwen2.5-7B-Instruct', 32_768],
    ['Qwen2.5-Math-7B', 4096],
    ['Qwen2-72B-Instruct', 32_768],
    ['Qwen3-8B', 40_960],
    ['Qwen3-8B-Base', 32_768],
    ['Phi-3-medium-128k-instruct', 131_072],
  ])('knows the longest sequence of %s, which may differ between variants', (typed, longest) => {
    expect(shippedCatalogue().find(typed)?.config['max_position_embeddings']).toBe(longest);
  });

  it('names the nearest where there is none of that name', () => {
    expect(shippedCatalogue().find('mistral-7c')).toBeUndefined();
    expect(shippedCatalogue().nearest('mistral-7c')).toBe('mistralai/Mistral-7B-v0.1');
    expect(shippedCatalogue().nearest('q'.repeat(10_000))).toBeUndefined();
  });

  it('reads broken text as models or refuses it with one failure', () => {
    const line = JSON.stringify(models[0]);
    assert(
      property(nat(line.length), string({ maxLength: 5 }), nat(20), (at, put, cut) => {
        const broken = line.slice(0, at) + put + line.slice(at + cut);
        try {
          for (const { name, parameters } of parseCatalogue(broken)) {
            expect(name).not.toBe('');
            expect(Number.isSafeInteger(parameters)).toBe(true);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
    expect(() => parseCatalogue(' '.repeat(2 ** 21))).toThrow(Failure);
  });
});
