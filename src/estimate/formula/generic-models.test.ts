import { describe, expect, it } from 'vitest';
import { describeConfig } from '../../model/config/describe-config.js';
import { findGpu } from '../cards/gpus.js';
import { formulaEstimate } from './formula-estimate.js';

const gpu = findGpu('h200');
const workload = {
  mode: 'train',
  batch: 4,
  sequence: 512,
  precision: 'bf16',
  optimizer: 'adamw',
  checkpointing: false,
} as const;
const sizes = { vocab_size: 50_000, hidden_size: 1024, num_attention_heads: 16 };

/** Defaults of transformers 5.17 with 4 layers; parameters as its own classes count them. */
const counted: readonly (readonly [Readonly<Record<string, unknown>>, number])[] = [
  [
    {
      model_type: 'olmo2',
      architectures: ['Olmo2ForCausalLM'],
      vocab_size: 50304,
      hidden_size: 4096,
      intermediate_size: 11008,
      num_hidden_layers: 4,
      num_attention_heads: 32,
      num_key_value_heads: 32,
      hidden_act: 'silu',
      rms_norm_eps: 1e-5,
      tie_word_embeddings: false,
    },
    1_221_660_672,
  ],
  [
    {
      model_type: 'persimmon',
      architectures: ['PersimmonForCausalLM'],
      vocab_size: 262144,
      hidden_size: 4096,
      intermediate_size: 16384,
      num_hidden_layers: 4,
      num_attention_heads: 64,
      hidden_act: 'relu2',
      layer_norm_eps: 1e-5,
      qk_layernorm: true,
      tie_word_embeddings: false,
    },
    2_953_011_200,
  ],
];

function estimateOf(config: Readonly<Record<string, unknown>>) {
  const description = describeConfig(config, 'config.json');
  return formulaEstimate({ path: 'config.json', description }, workload, gpu);
}

describe('a family without rules of its own', () => {
  it.each(counted)('counts its parameters within 0.1 %% (%j)', (config, parameters) => {
    const model = describeConfig(config, 'config.json');
    expect(Number(model.parameters) / parameters).toBeCloseTo(1, 3);
  });

  it('has an answer for norms of queries and keys, and for heads wider than the hidden size', () => {
    const plain = { ...sizes, num_hidden_layers: 2, hidden_act: 'relu2', layer_norm_eps: 1e-5 };
    const base = { ...plain, model_type: 'persimmon', architectures: ['PersimmonForCausalLM'] };
    const without = estimateOf({ ...base, qk_layernorm: false });
    const normed = estimateOf({ ...base, qk_layernorm: true });
    const wide = estimateOf({ ...base, head_dim: 128 });
    // A norm keeps its input, once for queries and once for keys, in each layer.
    const kept = 2 * 2 * (workload.batch * workload.sequence * sizes.hidden_size * 2);
    expect(normed.peak.allocatedBytes - without.peak.allocatedBytes).toBeGreaterThanOrEqual(kept);
    expect(wide.peak.allocatedBytes).toBeGreaterThan(without.peak.allocatedBytes);
  });

  it('counts the scores where the code of a family keeps them', () => {
    const config = { ...sizes, num_hidden_layers: 3, activation_function: 'gelu_new' };
    const [kept, fused] = ['gptj', 'persimmon'].map((type) =>
      estimateOf({ ...config, model_type: type, architectures: ['XForCausalLM'] }),
    );
    const pairs = workload.batch * sizes.num_attention_heads * workload.sequence ** 2;
    const more = (kept?.peak.allocatedBytes ?? 0) - (fused?.peak.allocatedBytes ?? 0);
    // In each layer the softmax in 32 bits, and what is made of it in 16.
    expect(more).toBeGreaterThanOrEqual(3 * pairs * (4 + 2));
  });

  it('has room for scores in its interval where it does not know whether they are kept', () => {
    const config = { ...sizes, num_hidden_layers: 3, hidden_act: 'silu', rms_norm_eps: 1e-6 };
    const [known, unknown] = ['granite', 'new'].map((type) =>
      estimateOf({ ...config, model_type: type, architectures: ['XForCausalLM'] }),
    );
    const pairs = workload.batch * sizes.num_attention_heads * workload.sequence ** 2;
    expect(unknown?.peak).toEqual(known?.peak);
    expect(unknown?.interval.lowBytes).toBe(known?.interval.lowBytes);
    const higher = (unknown?.interval.highBytes ?? 0) - (known?.interval.highBytes ?? 0);
    expect(higher).toBeGreaterThanOrEqual(3 * pairs * (4 + 2) - 64 * 2 ** 20);
    expect(unknown?.notes.join(' ')).toContain('whether its attention keeps a score');
  });

  it('is estimated as a usual decoder, and says so', () => {
    const { notes, interval, peak } = estimateOf({
      model_type: 'granite',
      architectures: ['GraniteForCausalLM'],
      ...sizes,
      num_hidden_layers: 4,
      num_key_value_heads: 4,
      intermediate_size: 4096,
      hidden_act: 'silu',
      rms_norm_eps: 1e-6,
    });
    expect(notes.join(' ')).toContain('Generic: the family "granite" has no formula of its own');
    expect(notes.join(' ')).toContain('a decoder like Llama');
    expect(interval.highBytes - interval.lowBytes).toBeGreaterThan(0.4 * peak.allocatedBytes);
  });

  it('gives what the family whose structure it has would give', () => {
    const config = {
      ...sizes,
      num_hidden_layers: 4,
      num_key_value_heads: 4,
      intermediate_size: 4096,
      hidden_act: 'silu',
      rms_norm_eps: 1e-6,
      tie_word_embeddings: false,
    };
    const generic = estimateOf({ ...config, model_type: 'new', architectures: ['NewForCausalLM'] });
    expect(generic.peak).toEqual(estimateOf({ ...config, model_type: 'llama' }).peak);
  });

  it('knows the other names of its fields', () => {
    const { notes } = estimateOf({
      model_type: 'gptj',
      architectures: ['GPTJForCausalLM'],
      vocab_size: 50_400,
      n_embd: 1024,
      n_layer: 2,
      n_head: 16,
      n_inner: null,
      activation_function: 'gelu_new',
      n_positions: 2048,
    });
    expect(notes.join(' ')).toContain('a decoder like GPT');
  });

  it('reads encoders, experts and squared activations', () => {
    const encoder = { type_vocab_size: 1, hidden_act: 'gelu', intermediate_size: 4096 };
    const experts = { num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 512 };
    for (const config of [
      { model_type: 'camembert', architectures: ['CamembertForMaskedLM'], ...encoder },
      {
        model_type: 'olmoe',
        architectures: ['OlmoeForCausalLM'],
        ...experts,
        hidden_act: 'silu',
        intermediate_size: 1024,
      },
      { model_type: 'nemotron', architectures: ['NemotronForCausalLM'], hidden_act: 'relu2' },
    ]) {
      const { peak } = estimateOf({ ...sizes, num_hidden_layers: 2, ...config });
      expect(peak.reservedBytes).toBeGreaterThan(peak.allocatedBytes);
    }
  });

  it.each([
    ['its attention is chosen among experts', { model_type: 'jetmoe', num_local_experts: 8 }],
    ['gates and norms that its config does not name', { model_type: 'bitnet', rms_norm_eps: 1e-5 }],
    ['gates that its config does not name', { model_type: 'modernbert-decoder' }],
    ['its layers are made for whole numbers', { model_type: 'ibert' }],
    ['another kind of layer', { model_type: 'tapas', type_vocab_sizes: [3, 256] }],
    ['another kind of attention', { model_type: 'mra', approx_mode: 'full' }],
    ['recurrent layers', { model_type: 'mamba', state_size: 16 }],
    ['recurrent layers', { model_type: 'bamba', mamba_d_state: 256 }],
    ['latent attention', { model_type: 'minicpm3', kv_lora_rank: 256 }],
    ['several parts', { model_type: 'llava', vision_config: {} }],
    ['an encoder and a decoder', { model_type: 'pegasus', is_encoder_decoder: true }],
    ['layers of several kinds', { model_type: 'lfm2', layer_types: ['conv', 'full_attention'] }],
    ['images', { model_type: 'unet', down_block_types: ['DownBlock2D'] }],
    ['not a usual decoder or encoder', { model_type: 'x', architectures: ['XForVideo'] }],
    ['does not give "num_attention_heads"', { model_type: 'fnet', num_attention_heads: null }],
  ])('is unknown: %s', (why, config) => {
    const given = { architectures: ['XForCausalLM'], ...sizes, num_hidden_layers: 2, ...config };
    const model = describeConfig(given, 'config.json');
    expect(model).toMatchObject({ family: 'unknown', parameters: 'unknown' });
    expect(model.notes.join(' ')).toContain(why);
    expect(() => estimateOf(given)).toThrow('There is no formula for the family');
  });
});
