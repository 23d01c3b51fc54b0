import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { describeConfig } from '../../model/config/describe-config.js';
import { familyRules } from '../../model/families/registry.js';
import { limits } from '../../model/limits.js';
import { findGpu } from '../cards/gpus.js';
import { formulaEstimate } from './formula-estimate.js';

const absurd = [2000, 2001, 1e6, 1e9, 2 ** 31 - 1, 2 ** 31, 2 ** 53 - 1, 1e300] as const;
const gpu = findGpu('h100');

interface Field {
  readonly modelType: string;
  readonly name: string;
  readonly usual: number | readonly number[];
}

/** Gemma 3 takes its sizes from the config of its language part. */
const sizesOf: Readonly<Record<string, string>> = { gemma3: 'gemma3_text' };

/** Every number and every list of numbers that some family takes from its config. */
const fields: readonly Field[] = [...familyRules.keys()].flatMap((modelType) => {
  const { defaults = {} } = familyRules.get(sizesOf[modelType] ?? modelType)?.table ?? {};
  return Object.entries(defaults).flatMap(([name, usual]) =>
    typeof usual === 'number' || isNumbers(usual) ? [{ modelType, name, usual }] : [],
  );
});

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'number');
}

/** Which layer counts a config has: small ones, so that only the absurd count can take long. */
const small = { num_hidden_layers: 2, n_layer: 2, n_layers: 2, num_layers: 2, encoder_layers: 2 };

/** Returns the result in words; throws anything but an answer or a clear error. */
function outcome(config: Readonly<Record<string, unknown>>): string {
  try {
    const description = describeConfig(config, 'config.json');
    if (description.family === 'unknown') return 'unknown';
    const counts = description.stacks.flatMap(({ layers }) => layers.map(({ count }) => count));
    const total = counts.reduce((sum, count) => sum + count, 0);
    expect(total).toBeLessThanOrEqual(limits.layers);
    // What is accepted is allowed to take its time: some milliseconds a layer.
    if (total > 100) return 'accepted';
    const { peak } = formulaEstimate(
      { path: 'config.json', description },
      {
        mode: 'infer',
        batch: 1,
        sequence: 32_000,
        precision: 'bf16',
        optimizer: 'sgd',
        checkpointing: false,
      },
      gpu,
    );
    expect(Object.values(peak).every(Number.isSafeInteger)).toBe(true);
    return 'estimated';
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    expect(error.message.length).toBeLessThan(600);
    return `refused: ${error.code}`;
  }
}

describe('a config with an absurd count', () => {
  it('is known for every family', () => {
    expect(new Set(fields.map(({ modelType }) => modelType)).size).toBe(familyRules.size);
  });

  it('is refused with one clear error, or harmless, whichever field it is in', () => {
    fc.assert(
      fc.property(fc.constantFrom(...fields), fc.constantFrom(...absurd), (field, value) => {
        const { modelType, name, usual } = field;
        const given =
          typeof usual === 'number' ? value : usual.map((_, at) => (at === 0 ? value : 2));
        const nested = { text_config: { ...small, [name]: given }, vision_config: small };
        expect(outcome({ model_type: modelType, ...small, ...nested, [name]: given })).not.toBe(
          'unknown',
        );
      }),
      { numRuns: 250 },
    );
  });

  it.each([
    ['swin', { depths: [1e9, 2, 18, 2] }, '"depths" is 1000000022 layers in all; at most 2000'],
    ['convnext', { depths: [3, 1e9, 9, 3] }, '"depths" is 1000000015 layers in all; at most 2000'],
    ['t5', { num_layers: 1500, num_decoder_layers: 1500 }, 'it has 3000 layers in all'],
    ['mixtral', { num_local_experts: 1e6 }, '"num_local_experts" is 1000000 experts'],
    ['wav2vec2', { conv_dim: Array(100).fill(8) }, '"conv_dim" is a list of 100 convolutions'],
    ['gemma3', { text_config: { num_hidden_layers: 1e9 } }, '"num_hidden_layers" is 1000000000'],
    ['llama', { num_hidden_layers: 2001 }, '"num_hidden_layers" is 2001 layers; at most 2000'],
  ])('%s names the field and the limit', (modelType, given, fact) => {
    const config = { model_type: modelType, ...given };
    expect(() => describeConfig(config, 'config.json')).toThrow(fact);
  });
});
