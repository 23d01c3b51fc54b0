import type { ConfigValues, FieldTable } from '../config/config-fields.js';
import type { Family } from '../model.js';
import { mixtralExperts, qwen2Experts, qwen3Experts } from './experts.js';
import { decoderClasses, type FamilyRules } from './family.js';
import { describeLlamaLike, type LlamaQuirks } from './llama-like.js';

const llama: LlamaQuirks = {
  qkvBias: 'attention_bias',
  outputBias: 'attention_bias',
  feedForwardBias: false,
  fused: false,
  queryKeyNorm: false,
  normsAfter: false,
  sliding: 'never',
  activation: 'hidden_act',
};
const mistral: LlamaQuirks = { ...llama, qkvBias: false, outputBias: false, sliding: 'every' };
const qwen2: LlamaQuirks = {
  ...llama,
  qkvBias: true,
  outputBias: false,
  sliding: 'after-max-window-layers',
};
const qwen3: LlamaQuirks = { ...llama, queryKeyNorm: true, sliding: 'after-max-window-layers' };
const gemma2: LlamaQuirks = {
  ...llama,
  normsAfter: true,
  activation: 'hidden_activation',
  sliding: 'all-but-each-second',
};
export const gemma3Text: LlamaQuirks = {
  ...gemma2,
  queryKeyNorm: true,
  sliding: 'all-but-each-nth',
};

const shared: ConfigValues = {
  hidden_act: 'silu',
  head_dim: null,
  attention_dropout: 0,
  tie_word_embeddings: false,
};
const llama7b: ConfigValues = {
  ...shared,
  vocab_size: 32000,
  hidden_size: 4096,
  intermediate_size: 11008,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: null,
  max_position_embeddings: 2048,
  attention_bias: false,
  mlp_bias: false,
};
const mistral7b: ConfigValues = {
  ...llama7b,
  intermediate_size: 14336,
  num_key_value_heads: 8,
  max_position_embeddings: 131072,
  sliding_window: 4096,
};
const qwen: ConfigValues = {
  ...llama7b,
  vocab_size: 151936,
  intermediate_size: 22016,
  num_key_value_heads: 32,
  max_position_embeddings: 32768,
  use_sliding_window: false,
  sliding_window: 4096,
  max_window_layers: 28,
};
const qwenExperts: ConfigValues = {
  ...qwen,
  hidden_size: 2048,
  num_hidden_layers: 24,
  decoder_sparse_step: 1,
  mlp_only_layers: null,
};
const gemma7b: ConfigValues = {
  ...llama7b,
  vocab_size: 256000,
  hidden_size: 3072,
  intermediate_size: 24576,
  num_hidden_layers: 28,
  num_attention_heads: 16,
  num_key_value_heads: 16,
  head_dim: 256,
  hidden_act: 'gelu_pytorch_tanh',
  max_position_embeddings: 8192,
  tie_word_embeddings: true,
};
const gemma2b: ConfigValues = {
  ...gemma7b,
  hidden_size: 2304,
  intermediate_size: 9216,
  num_hidden_layers: 26,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  hidden_activation: 'gelu_pytorch_tanh',
  sliding_window: 4096,
};
export const gemma3TextTable: FieldTable = {
  defaults: {
    ...gemma2b,
    vocab_size: 262208,
    max_position_embeddings: 131072,
    sliding_window_pattern: 6,
  },
  aliases: { sliding_window_pattern: ['_sliding_window_pattern'] },
};

function rules(
  family: Family,
  classes: FamilyRules['classes'],
  quirks: LlamaQuirks,
  table: FieldTable,
): FamilyRules {
  return {
    family,
    classes,
    table,
    describe: (fields, _, head) => describeLlamaLike(fields, head, quirks),
  };
}

/** By `model_type`. The defaults are those of the config classes of transformers. */
export const llamaFamilies: Readonly<Record<string, FamilyRules>> = {
  llama: rules(
    'llama',
    decoderClasses('Llama'),
    { ...llama, feedForwardBias: 'mlp_bias', questionBody: 'transformer' },
    { defaults: llama7b },
  ),
  mistral: rules('mistral', decoderClasses('Mistral'), mistral, { defaults: mistral7b }),
  mixtral: rules(
    'mixtral',
    decoderClasses('Mixtral'),
    { ...mistral, experts: mixtralExperts },
    {
      defaults: {
        ...mistral7b,
        sliding_window: null,
        num_local_experts: 8,
        num_experts_per_tok: 2,
      },
      aliases: { num_local_experts: ['num_experts'] },
    },
  ),
  qwen2: rules(
    'qwen2',
    decoderClasses('Qwen2'),
    { ...qwen2, questionBody: 'transformer' },
    { defaults: qwen },
  ),
  qwen3: rules(
    'qwen3',
    decoderClasses('Qwen3'),
    { ...qwen3, questionBody: 'transformer' },
    { defaults: { ...qwen, head_dim: 128 } },
  ),
  qwen2_moe: rules(
    'qwen2_moe',
    decoderClasses('Qwen2Moe'),
    {
      ...qwen2,
      qkvBias: 'qkv_bias',
      sliding: 'even-before-max-window-layers',
      experts: qwen2Experts,
      questionBody: 'transformer',
    },
    {
      defaults: {
        ...qwenExperts,
        intermediate_size: 5632,
        num_attention_heads: 16,
        num_key_value_heads: 16,
        moe_intermediate_size: 1408,
        shared_expert_intermediate_size: 5632,
        num_experts: 60,
        num_experts_per_tok: 4,
        qkv_bias: true,
      },
    },
  ),
  qwen3_moe: rules(
    'qwen3_moe',
    decoderClasses('Qwen3Moe'),
    { ...qwen3, sliding: 'every-if-used', experts: qwen3Experts, questionBody: 'transformer' },
    {
      defaults: {
        ...qwenExperts,
        intermediate_size: 6144,
        num_key_value_heads: 4,
        moe_intermediate_size: 768,
        num_experts: 128,
        num_experts_per_tok: 8,
      },
      aliases: { num_experts: ['num_local_experts'] },
    },
  ),
  gemma: rules('gemma', decoderClasses('Gemma', ['question']), llama, { defaults: gemma7b }),
  gemma2: rules('gemma2', decoderClasses('Gemma2', ['question']), gemma2, { defaults: gemma2b }),
  gemma3_text: rules(
    'gemma3',
    new Map([
      ['Gemma3ForCausalLM', 'lm'],
      ['Gemma3TextForSequenceClassification', 'sequence-classification'],
      ['Gemma3TextModel', 'none'],
    ]),
    gemma3Text,
    gemma3TextTable,
  ),
  phi3: rules(
    'phi3',
    decoderClasses('Phi3', ['question']),
    { ...mistral, fused: true },
    {
      defaults: {
        ...llama7b,
        vocab_size: 32064,
        hidden_size: 3072,
        intermediate_size: 8192,
        max_position_embeddings: 4096,
        sliding_window: null,
      },
    },
  ),
};
