import type { ConfigFields, ConfigValues } from '../config/config-fields.js';
import type { Attention, FeedForward, Head } from '../model.js';
import type { ParameterList } from '../parameter-list.js';
import { type Experts, expertsOf } from './experts.js';
import {
  addDecoderHead,
  addGatedFeedForward,
  decoderClasses,
  type FamilyParts,
  type FamilyRules,
  groupLayers,
  noDropout,
  oneStack,
  tokenInput,
} from './family.js';

const defaults: ConfigValues = {
  vocab_size: 102400,
  hidden_size: 4096,
  intermediate_size: 11008,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  hidden_act: 'silu',
  max_position_embeddings: 2048,
  tie_word_embeddings: false,
  attention_bias: false,
  attention_dropout: 0,
  mlp_bias: false,
  first_k_dense_replace: 0,
  kv_lora_rank: 512,
  q_lora_rank: 1536,
  n_routed_experts: 64,
  n_shared_experts: 2,
  qk_nope_head_dim: 128,
  qk_rope_head_dim: 64,
  v_head_dim: 128,
  num_experts_per_tok: null,
  moe_intermediate_size: 1407,
};

const defaultsOfV3: ConfigValues = {
  ...defaults,
  vocab_size: 129280,
  hidden_size: 7168,
  intermediate_size: 18432,
  num_hidden_layers: 61,
  num_attention_heads: 128,
  max_position_embeddings: 4096,
  first_k_dense_replace: 3,
  n_routed_experts: 256,
  n_shared_experts: 1,
  num_experts_per_tok: 8,
  moe_intermediate_size: 2048,
};

function expertsIn(fields: ConfigFields, sharedBias: boolean): Experts {
  const inner = fields.size('moe_intermediate_size');
  const denseLayers = fields.count('first_k_dense_replace');
  return expertsOf(
    {
      count: fields.size('n_routed_experts'),
      // A config may leave it open; one expert a token is the least there can be.
      active: fields.optionalSize('num_experts_per_tok') ?? 1,
      inner,
      sharedInner: inner * fields.size('n_shared_experts'),
      sharedName: 'shared_experts',
      sharedBias,
    },
    (layer) => layer >= denseLayers,
  );
}

/** Attention whose keys and values pass through one narrow matrix. */
function latentAttention(fields: ConfigFields): Attention & { readonly latent: object } {
  const heads = fields.size('num_attention_heads');
  const ropeDim = fields.size('qk_rope_head_dim');
  return {
    reach: 'full',
    heads,
    kvHeads: heads,
    headDim: fields.size('qk_nope_head_dim') + ropeDim,
    valueHeadDim: fields.size('v_head_dim'),
    fused: false,
    bias: fields.flag('attention_bias'),
    queryKeyNorm: false,
    latent: {
      queryRank: fields.optionalSize('q_lora_rank') ?? null,
      keyValueRank: fields.size('kv_lora_rank'),
      ropeDim,
    },
  };
}

function addAttention(attention: ParameterList, fields: ConfigFields, hidden: number): void {
  const heads = fields.size('num_attention_heads');
  const nope = fields.size('qk_nope_head_dim');
  const rope = fields.size('qk_rope_head_dim');
  const value = fields.size('v_head_dim');
  const queryRank = fields.optionalSize('q_lora_rank');
  const rank = fields.size('kv_lora_rank');
  const bias = fields.flag('attention_bias');
  if (queryRank === undefined) attention.linear('q_proj', hidden, heads * (nope + rope), false);
  else {
    attention.linear('q_a_proj', hidden, queryRank, bias);
    attention.norm('q_a_layernorm', queryRank, 'rms');
    attention.linear('q_b_proj', queryRank, heads * (nope + rope), false);
  }
  attention.linear('kv_a_proj_with_mqa', hidden, rank + rope, bias);
  attention.norm('kv_a_layernorm', rank, 'rms');
  attention.linear('kv_b_proj', rank, heads * (nope + value), false);
  attention.linear('o_proj', heads * value, hidden, bias);
}

function describe(fields: ConfigFields, head: Head, feedForwardBias: boolean): FamilyParts {
  const hidden = fields.size('hidden_size');
  const layers = fields.layers('num_hidden_layers');
  const vocabulary = fields.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const inner = fields.size('intermediate_size');
  const activation = fields.text('hidden_act');
  const experts = expertsIn(fields, feedForwardBias);
  const dense: FeedForward = { inner, gated: true, activation, bias: feedForwardBias };
  const attention = latentAttention(fields);
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'model', tokenHead: 'score' },
    { hidden, vocabulary, tied },
  );
  body.embedding('embed_tokens', vocabulary, hidden);
  body.norm('norm', hidden, 'rms');
  const layer = body.scope('layers.*', layers);
  addAttention(layer.scope('self_attn'), fields, hidden);
  layer.norm('input_layernorm', hidden, 'rms');
  layer.norm('post_attention_layernorm', hidden, 'rms');
  const denseLayers = Math.min(layers, fields.count('first_k_dense_replace'));
  const mlp = body.scope('layers.*.mlp', denseLayers);
  addGatedFeedForward(mlp, hidden, inner, feedForwardBias);
  experts.addParameters(body.scope('layers.*.mlp', layers - denseLayers), hidden);
  return oneStack(
    { kind: 'decoder', head, outputs, tied, parameters },
    {
      role: 'text',
      hidden,
      input: tokenInput(fields, vocabulary, 'rotary'),
      dropout: { ...noDropout, attention: fields.number('attention_dropout') },
      layers: groupLayers(
        Array.from({ length: layers }, (_, index) => ({
          hidden,
          attention,
          feedForward: experts.isSparse(index) ? experts.feedForward(activation) : dense,
          parallel: false,
          norm: 'rms' as const,
          norms: 2,
        })),
      ),
    },
  );
}

export const deepseekFamilies: Readonly<Record<string, FamilyRules>> = {
  deepseek_v2: {
    family: 'deepseek_v2',
    classes: decoderClasses('DeepseekV2', ['token', 'question']),
    table: { defaults, aliases: { n_routed_experts: ['num_experts'] } },
    describe: (fields, _, head) => describe(fields, head, fields.flag('mlp_bias')),
  },
  deepseek_v3: {
    family: 'deepseek_v3',
    classes: decoderClasses('DeepseekV3', ['question']),
    table: { defaults: defaultsOfV3, aliases: { n_routed_experts: ['num_local_experts'] } },
    // The third version's feed-forward has no biases, whatever the config says.
    describe: (fields, _, head) => describe(fields, head, false),
  },
};
