import type { ConfigValues } from '../config/config-fields.js';

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

/** What keeps a config from being read as a usual decoder or encoder; undefined where nothing does. */
export function unusualField(config: ConfigValues): string | undefined {
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
