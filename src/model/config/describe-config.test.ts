import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { failureOf, outcomeOf } from '../files-for-tests.js';
import { families, type KnownModel } from '../model.js';
import { elementsOf } from '../parameter-list.js';
import { describeConfig } from './describe-config.js';

interface RecordedCase {
  readonly name: string;
  readonly class: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly parameters: number;
  readonly shapes: Readonly<Record<string, number>>;
  readonly digest: string;
}

/** Small models as transformers builds them; made by python/tools/record_parameter_shapes.py. */
const recorded: { readonly cases: readonly RecordedCase[] } = JSON.parse(
  readFileSync(new URL('../../../test/fixtures/parameter-shapes.json', import.meta.url), 'utf8'),
);

function known(config: Readonly<Record<string, unknown>>): KnownModel {
  const model = describeConfig(config, 'config.json');
  if (model.family === 'unknown') throw new Error(`unknown family ${model.modelType}`);
  return model;
}

function shapesOf(model: KnownModel): Record<string, number> {
  const shapes: Record<string, number> = {};
  for (const { shape, count } of model.tensors) {
    const key = shape.join('x');
    shapes[key] = (shapes[key] ?? 0) + count;
  }
  return shapes;
}

function linesOf(model: KnownModel): readonly string[] {
  return model.tensors
    .map(
      ({ name, shape, count, trainable }) =>
        `${name} [${shape.join(',')}] ${count}${trainable ? '' : ' frozen'}`,
    )
    .toSorted();
}

describe('describeConfig against transformers', () => {
  it.each(recorded.cases.map((recordedCase) => [recordedCase.name, recordedCase] as const))(
    '%s',
    (_, { config, class: className, parameters, shapes, digest }) => {
      const model = known(config);
      expect(model.className).toBe(className);
      expect(shapesOf(model)).toEqual(shapes);
      expect(model.parameters).toBe(parameters);
      // Names too; where this fails, the tool shows them with --show.
      const lines = linesOf(model).join('\n');
      expect(createHash('sha256').update(lines).digest('hex').slice(0, 16)).toBe(digest);
    },
  );
});

/** Parameters that the real runs had, by the name of their config. */
const measured: { readonly results: readonly { model: string; params: number }[] } = JSON.parse(
  readFileSync(new URL('../../../bench/truth/peaks.json', import.meta.url), 'utf8'),
);
const truth = new URL('../../../bench/truth/configs/', import.meta.url);

describe('describeConfig against what ran on a GPU', () => {
  it.each(readdirSync(truth))('%s', (file) => {
    const model = known(JSON.parse(readFileSync(new URL(file, truth), 'utf8')));
    const name = file.replace(/\.json$/, '');
    const params = measured.results.find((result) => result.model === name)?.params;
    expect(params).toBeGreaterThan(0);
    expect(model.parameters).toBe(params);
  });
});

describe('describeConfig', () => {
  it('has every family that the contract names', () => {
    const found = new Set(recorded.cases.map(({ config }) => known(config).family));
    expect([...found].toSorted()).toEqual([...families].toSorted());
  });

  it('gives no numbers for a family it does not know', () => {
    const model = describeConfig({ model_type: 'mamba', hidden_size: 768 }, 'config.json');
    expect(model).toEqual({
      family: 'unknown',
      modelType: 'mamba',
      parameters: 'unknown',
      notes: [
        'The family "mamba" is not known, and its config names no class ("architectures"), so nothing is taken from its config.',
      ],
    });
  });

  it('says which sizes the config left open', () => {
    expect(
      known({ model_type: 'gpt2', n_embd: 1024, n_head: 16, vocab_size: 50257 }).notes,
    ).toEqual([
      'The config does not give n_layer, n_positions; what transformers takes by default was taken.',
    ]);
  });

  it('says when it takes another class than the config names', () => {
    const model = known({ model_type: 'gpt2', architectures: ['GPT2DoubleHeadsModel'] });
    expect(model.className).toBe('GPT2LMHeadModel');
    expect(model.notes[0]).toContain('GPT2DoubleHeadsModel');
  });

  it('passes on the type of the weights, and that they are quantized', () => {
    const config = {
      ...recorded.cases[1]?.config,
      torch_dtype: 'bfloat16',
      quantization_config: { quant_method: 'gptq' },
    };
    expect(known(config).dtype).toBe('bfloat16');
    expect(known(config).notes.at(-1)).toContain('quantized (gptq)');
  });

  it('describes grouped attention with a window, layer by layer', () => {
    const [stack] = known({
      model_type: 'gemma3_text',
      num_hidden_layers: 7,
      sliding_window: 512,
      head_dim: 128,
    }).stacks;
    const reaches = stack?.layers.map(({ count, attention }) => [
      count,
      attention?.reach,
      attention?.window,
    ]);
    expect(reaches).toEqual([
      [5, 'sliding', 512],
      [1, 'full', undefined],
      [1, 'sliding', 512],
    ]);
    expect(stack?.layers[0]?.attention).toMatchObject({ heads: 8, kvHeads: 4, headDim: 128 });
  });

  it('describes latent attention and experts', () => {
    const [stack] = known({ model_type: 'deepseek_v3' }).stacks;
    expect(stack?.layers.map(({ count }) => count)).toEqual([3, 58]);
    expect(stack?.layers[1]).toMatchObject({
      attention: {
        headDim: 192,
        valueHeadDim: 128,
        latent: { queryRank: 1536, keyValueRank: 512, ropeDim: 64 },
      },
      feedForward: { inner: 2048, experts: { count: 256, active: 8, sharedInner: 2048 } },
    });
  });

  it('describes both stacks of an encoder-decoder', () => {
    const { kind, stacks } = known({ model_type: 't5', num_layers: 4, num_decoder_layers: 2 });
    expect(kind).toBe('encoder-decoder');
    expect(stacks.map(({ role, layers }) => [role, layers[0]?.count])).toEqual([
      ['encoder', 4],
      ['decoder', 2],
    ]);
    expect(stacks[1]?.layers[0]?.crossAttention?.heads).toBe(8);
  });

  it('knows that a frozen table is not trained', () => {
    const { parameters, trainableParameters } = known({ model_type: 'whisper' });
    expect(parameters - trainableParameters).toBe(1500 * 384);
  });

  it.each([
    ['no family', {}, '"model_type"'],
    ['a size of 0', { model_type: 'llama', hidden_size: 0 }, '"hidden_size" is 0'],
    ['a size below 0', { model_type: 'llama', vocab_size: -1 }, '"vocab_size" is -1'],
    ['a size as text', { model_type: 'llama', hidden_size: '4096' }, '"hidden_size" is "4096"'],
    ['a fraction', { model_type: 'bert', intermediate_size: 1.5 }, '"intermediate_size" is 1.5'],
    ['nothing', { model_type: 'bert', num_hidden_layers: null }, '"num_hidden_layers" is null'],
    ['too many layers', { model_type: 'llama', num_hidden_layers: 1e6 }, '1000000 layers'],
    ['too large a size', { model_type: 'llama', vocab_size: 2 ** 40 }, '"vocab_size"'],
    ['more heads than width', { model_type: 'llama', num_attention_heads: 8192 }, 'more than'],
    ['a flag as text', { model_type: 'llama', mlp_bias: 'no' }, '"mlp_bias" is "no"'],
    ['too short a list', { model_type: 'qwen2', layer_types: ['full_attention'] }, 'a list of 1'],
    [
      'an unknown kind of layer',
      { model_type: 'qwen2', num_hidden_layers: 1, layer_types: ['linear_attention'] },
      'linear_attention',
    ],
    ['a tower that is none', { model_type: 'clip', text_config: 5 }, '"text_config" is 5'],
    [
      'a bad size in a tower',
      { model_type: 'clip', vision_config: { hidden_size: 0 } },
      'config.json, vision_config: "hidden_size"',
    ],
    ['lists that do not match', { model_type: 'swin', num_heads: [3] }, '"num_heads"'],
    ['classes that are no list', { model_type: 'gpt2', architectures: 'GPT2' }, '"architectures"'],
    [
      'more parameters than can be counted',
      { model_type: 'llama', hidden_size: 2 ** 30, intermediate_size: 2 ** 30 },
      'more parameters than',
    ],
  ])('refuses %s', (_, config, words) => {
    const failure = failureOf(() => describeConfig(config, 'config.json'));
    expect(failure).toMatchObject({ kind: 'input', code: 'bad-config' });
    expect(failure.fact).toContain('config.json');
    expect(failure.fact).toContain(words);
  });

  it('answers or refuses whatever values a config has', () => {
    const values = fc.oneof(
      fc.integer({ min: -2, max: 70 }),
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom(2 ** 31, 1e308, '', true, null, [1, 2], ['full_attention']),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...recorded.cases.map(({ config }) => config)),
        fc.array(fc.tuple(fc.nat(), values), { maxLength: 3 }),
        (config, changes) => {
          const keys = Object.keys(config);
          const changed: Record<string, unknown> = { ...config };
          for (const [index, value] of changes) changed[keys[index % keys.length] ?? ''] = value;
          const outcome = outcomeOf(() => {
            const model = describeConfig(changed, 'config.json');
            if (model.family === 'unknown') return;
            const sum = model.tensors.reduce(
              (total, { shape, count }) => total + count * elementsOf(shape),
              0,
            );
            expect(model.parameters).toBe(sum);
            expect(Number.isSafeInteger(sum)).toBe(true);
          });
          expect(['read', 'bad-config']).toContain(outcome);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
