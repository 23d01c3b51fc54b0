import type { ConfigFields, ConfigValues } from '../config/config-fields.js';
import type { Head } from '../model.js';
import { bertFamilies } from './bert.js';
import { expertsOf } from './experts.js';
import type { FamilyParts, FamilyRules } from './family.js';
import { describeLlamaLike, type LlamaQuirks } from './llama-like.js';
import { describePhi } from './phi.js';

/** Other names of a field in the configs of different families. */
const aliases: Readonly<Record<string, readonly string[]>> = {
  vocab_size: ['n_vocab', 'embed_vocab_size'],
  hidden_size: ['n_embd', 'd_model', 'dim', 'model_dim', 'emb_dim'],
  num_hidden_layers: ['n_layer', 'n_layers', 'num_layers'],
  num_attention_heads: ['n_head', 'n_heads', 'num_heads'],
  num_key_value_heads: ['num_kv_heads', 'n_kv_heads', 'multi_query_group_num'],
  head_dim: ['attention_head_size', 'kv_channels', 'd_head'],
  intermediate_size: [
    'n_inner',
    'ffn_dim',
    'd_ff',
    'ffn_hidden_size',
    'ff_dim',
    'hidden_dim',
    'dff',
  ],
  hidden_act: ['hidden_activation', 'activation_function', 'activation', 'afn'],
  max_position_embeddings: ['n_positions', 'n_ctx', 'max_seq_len', 'max_sequence_length'],
  attention_bias: ['qkv_bias', 'use_qkv_bias', 'use_bias', 'add_bias_linear'],
  mlp_bias: ['use_bias', 'add_bias_linear'],
  qk_layernorm: ['use_qk_norm', 'qk_norm'],
  attention_dropout: ['attn_pdrop', 'attn_dropout', 'attention_probs_dropout_prob'],
  resid_pdrop: ['residual_dropout', 'hidden_dropout', 'hidden_dropout_prob', 'dropout'],
  num_experts: ['num_local_experts', 'n_routed_experts', 'moe_num_experts'],
  num_experts_per_tok: ['num_experts_per_token', 'moe_topk', 'moe_k', 'top_k_experts'],
  moe_intermediate_size: ['expert_ffn_hidden_size', 'ffn_dim_expert'],
  n_shared_experts: ['num_shared_experts', 'moe_num_shared_experts'],
  first_k_dense_replace: ['num_dense_layers', 'moe_layer_start_index'],
  tie_word_embeddings: ['tie_embeddings'],
};

const sizes: ConfigValues = {
  num_key_value_heads: null,
  head_dim: null,
  max_position_embeddings: 2048,
  type_vocab_size: 1,
  attention_dropout: 0,
  resid_pdrop: 0,
  embd_pdrop: 0,
  hidden_dropout_prob: 0,
  attention_probs_dropout_prob: 0,
  attention_bias: false,
  mlp_bias: false,
  qk_layernorm: false,
  num_experts: 0,
  num_experts_per_tok: 2,
  n_shared_experts: 0,
  first_k_dense_replace: 0,
  mlp_layer_types: null,
  shared_expert_intermediate_size: null,
  moe_intermediate_size: null,
  is_decoder: false,
  add_cross_attention: false,
};

const gatedQuirks: LlamaQuirks = {
  qkvBias: 'attention_bias',
  outputBias: false,
  feedForwardBias: 'mlp_bias',
  fused: false,
  queryKeyNorm: false,
  normsAfter: false,
  sliding: 'never',
  activation: 'hidden_act',
};

const gates = /silu|swish|swiglu|geglu|glu/i;
const languageClasses = /(?:ForCausalLM|LMHeadModel|LanguageModelingHead)$/;
const encoderClasses: readonly (readonly [RegExp, string])[] = [
  [/ForMaskedLM$/, 'BertForMaskedLM'],
  [/ForSequenceClassification$/, 'BertForSequenceClassification'],
  [/ForTokenClassification$/, 'BertForTokenClassification'],
  [/ForQuestionAnswering$/, 'BertForQuestionAnswering'],
];

/** Without one of these there is nothing to build. */
const required = ['vocab_size', 'hidden_size', 'num_hidden_layers', 'num_attention_heads'];

function isGiven(config: ConfigValues, name: string): boolean {
  return [name, ...(aliases[name] ?? [])].some((key) => typeof config[key] === 'number');
}

/** A model that is built like a usual decoder or encoder, though its family has no rules. */
export interface GenericRules {
  readonly rules: FamilyRules;
  /** The class as the config names it. */
  readonly className: string;
  /** The assumed model, in words. */
  readonly takenFor: string;
}

/**
 * How to read a config of a family without rules of its own, where its fields and its class say that
 * it is a usual decoder or encoder. Otherwise what keeps it from being one, in words.
 */
export function genericRules(config: ConfigValues): GenericRules | { readonly unusual: string } {
  const unusual = unusualField(config);
  if (unusual !== undefined) return { unusual };
  const names: readonly unknown[] = Array.isArray(config.architectures) ? config.architectures : [];
  const className = names.find((name): name is string => typeof name === 'string');
  if (className === undefined) return { unusual: 'its config names no class ("architectures")' };
  const missing = required.find((name) => !isGiven(config, name));
  if (missing !== undefined) return { unusual: `its config does not give "${missing}"` };
  const isBertLike = 'type_vocab_size' in config && !('rms_norm_eps' in config);
  if (languageClasses.test(className)) {
    if (isBertLike) return { unusual: 'it is an encoder that goes on with a text' };
    return { className, ...decoderRules(config) };
  }
  const encoder = encoderClasses.find(([pattern]) => pattern.test(className));
  if (encoder === undefined) {
    return { unusual: `its class ${className.slice(0, 60)} is not a usual decoder or encoder` };
  }
  const gate = ['num_key_value_heads', 'rope_parameters', 'rope_theta', 'rotary_emb_base'].find(
    (name) => config[name] !== undefined && config[name] !== null,
  );
  if (gate !== undefined) return { unusual: `it is an encoder unlike BERT ("${gate}")` };
  const [, like] = encoder;
  const bert = bertFamilies['bert'];
  if (bert === undefined) throw new Error('BERT is known');
  return {
    className,
    takenFor: 'an encoder like BERT',
    rules: {
      family: 'bert',
      classes: new Map([[className, bert.classes.get(like) ?? 'masked-lm']]),
      table: { defaults: { ...sizes, hidden_act: 'gelu', tie_word_embeddings: true }, aliases },
      describe: (fields, _, head) => bert.describe(fields, like, head),
    },
  };
}

function decoderRules(config: ConfigValues): Pick<GenericRules, 'rules' | 'takenFor'> {
  const activation = [config.hidden_act, config.hidden_activation, config.activation_function].find(
    (value): value is string => typeof value === 'string',
  );
  const byRoot = 'rms_norm_eps' in config;
  const gated = activation === undefined ? byRoot : gates.test(activation);
  // Gemma and its like gate with a gelu; others with a gelu or relu have two plain matrices.
  const isGated = gated || (byRoot && activation?.startsWith('gelu') === true);
  return isGated ? gatedDecoder() : plainDecoder();
}

function gatedDecoder(): Pick<GenericRules, 'rules' | 'takenFor'> {
  return {
    takenFor: 'a decoder like Llama',
    rules: {
      family: 'mixtral',
      classes: new Map<string, Head>(),
      table: { defaults: { ...sizes, hidden_act: 'silu', tie_word_embeddings: false }, aliases },
      describe: (fields, _, head) =>
        describeLlamaLike(withInner(fields), head, {
          ...gatedQuirks,
          queryKeyNorm: fields.flag('qk_layernorm'),
          ...(fields.has('num_experts') && fields.experts('num_experts') > 0
            ? { experts: genericExperts }
            : {}),
        }),
    },
  };
}

/** Every layer from the first sparse one on chooses among experts. */
function genericExperts(fields: ConfigFields) {
  const inner = fields.optionalSize('moe_intermediate_size') ?? fields.size('intermediate_size');
  const shared = fields.has('shared_expert_intermediate_size')
    ? fields.size('shared_expert_intermediate_size')
    : fields.count('n_shared_experts') * inner;
  const dense = fields.count('first_k_dense_replace');
  const listed = fields.texts('mlp_layer_types');
  return expertsOf(
    {
      count: fields.experts('num_experts'),
      active: fields.size('num_experts_per_tok'),
      inner,
      sharedInner: shared,
      ...(shared > 0 ? { sharedName: 'shared_experts' } : {}),
    },
    (layer) => (listed === undefined ? layer >= dense : listed[layer] === 'sparse'),
  );
}

function plainDecoder(): Pick<GenericRules, 'rules' | 'takenFor'> {
  return {
    takenFor: 'a decoder like GPT, with two plain matrices in each feed-forward part',
    rules: {
      family: 'phi',
      classes: new Map<string, Head>(),
      table: { defaults: { ...sizes, hidden_act: 'gelu', tie_word_embeddings: true }, aliases },
      describe: (fields, _, head) =>
        oneAfterAnother(describePhi(withInner(fields), head, false), fields),
    },
  };
}

/** Some configs leave the inner size out: four times the hidden size. */
function withInner(fields: ConfigFields): ConfigFields {
  return fields.has('intermediate_size')
    ? fields
    : fields.with('intermediate_size', 4 * fields.size('hidden_size'));
}

/** Attention first, then feed-forward, each with a norm of its own. */
function oneAfterAnother(parts: FamilyParts, fields: ConfigFields): FamilyParts {
  const layers = fields.layers('num_hidden_layers');
  const body = parts.head === 'none' ? 'layers.*' : 'model.layers.*';
  parts.parameters.scope(body, layers).norm('post_attention_layernorm', fields.size('hidden_size'));
  return {
    ...parts,
    stacks: parts.stacks.map((stack) => ({
      ...stack,
      layers: stack.layers.map((layer) => ({ ...layer, parallel: false, norms: 2 })),
    })),
  };
}

/**
 * Fields that only models of another structure have, each with what it stands for. Where one is set,
 * a generic decoder or encoder would give a wrong number.
 */
const unusualFields: readonly (readonly [pattern: RegExp, what: string])[] = [
  [
    /^(ssm_|state_size$|mamba_|time_step_|conv_kernel$|d_conv$|lru_width$|rwkv|recurrent|qk_dim_factor|mem_len|H_cycles|conv_L_cache)/,
    'recurrent layers',
  ],
  [
    /^(linear_num_|linear_attn|gated_delta|hybrid|attn_layer_|block_types$|layers_block_type$)/,
    'layers of several kinds',
  ],
  [/^(kv_lora_rank|q_lora_rank|kv_latent)/, 'latent attention'],
  [
    /^(vision_config|audio_config|text_config|encoder_config|decoder_config|thinker_config|encoder_layers|decoder_layers)$/,
    'several parts',
  ],
  [
    /^(attention_window|attention_type|num_landmarks|block_sizes|num_hashes|pos_att_type|relative_attention$|hash|attention_types|attn_config|approx_mode)/,
    'another kind of attention',
  ],
  [
    /^(num_hidden_groups|intra_bottleneck_size|conv_kernel_size|q_groups|axial_|num_latents|num_codebooks|num_queries|keep_window|hidden_size_per_layer_input|entity_vocab_size|languages$|n_langs|asm$|prompt_types|input_embedding_size|shape_vocab_size|type_vocab_sizes|max_2d_position|intermediate_size_mlp|lora_adaptations)/,
    'another kind of layer',
  ],
  [
    /^(down_block_types|up_block_types|num_train_timesteps|block_out_channels|patch_size|image_size)$/,
    'images',
  ],
];

/** Families that are built otherwise though no field of their config says so. */
const unusualFamilies: ReadonlyMap<unknown, string> = new Map([
  ['ibert', 'its layers are made for whole numbers'],
  ['jetmoe', 'its attention is chosen among experts'],
  ['bitnet', 'its feed-forward parts have gates and norms that its config does not name'],
  ['modernbert-decoder', 'its feed-forward parts have gates that its config does not name'],
]);

const attentionLayers = /^(?:full|sliding|chunked|local|global)(?:_attention)?$/;

/** Returns the field that keeps a config from being read as a usual decoder or encoder, if there is one. */
function unusualField(config: ConfigValues): string | undefined {
  const family = unusualFamilies.get(config.model_type);
  if (family !== undefined) return family;
  if (config.is_encoder_decoder === true) return 'it has an encoder and a decoder';
  for (const [name, value] of Object.entries(config)) {
    if (value === null || value === undefined || value === false) continue;
    const found = unusualFields.find(([pattern]) => pattern.test(name));
    if (found !== undefined) return `it has ${found[1]} ("${name.slice(0, 40)}")`;
  }
  const { layer_types: types, embedding_size: embedding, hidden_size: hidden } = config;
  if (Array.isArray(types) && !types.every((type) => attentionLayers.test(String(type)))) {
    return 'it has layers of several kinds ("layer_types")';
  }
  if (typeof embedding === 'number' && embedding !== hidden) {
    return 'its embedding has a size of its own ("embedding_size")';
  }
  return undefined;
}
