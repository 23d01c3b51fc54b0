// The same jobs so small that a laptop without a GPU runs them: the same kinds of layers, few and narrow.
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const sizes = {
  hidden_size: 32,
  n_embd: 32,
  d_model: 32,
  embed_dim: 16,
  word_embed_proj_dim: 32,
  intermediate_size: 64,
  n_inner: 64,
  ffn_dim: 64,
  d_ff: 64,
  encoder_ffn_dim: 64,
  decoder_ffn_dim: 64,
  d_kv: 16,
  head_dim: 16,
  num_hidden_layers: 2,
  n_layer: 2,
  num_layers: 2,
  num_decoder_layers: 2,
  encoder_layers: 2,
  decoder_layers: 2,
  num_attention_heads: 2,
  n_head: 2,
  num_heads: 2,
  num_key_value_heads: 2,
  encoder_attention_heads: 2,
  decoder_attention_heads: 2,
  vocab_size: 256,
  max_source_positions: 50,
  depths: [1, 1],
};
/** What counts layers or stages, or loses its ".0" on the way through JSON. */
const dropped = [
  'layer_types',
  'out_features',
  'out_indices',
  'stage_names',
  'begin_suppress_tokens',
  'suppress_tokens',
  'initializer_factor',
];
const ids = ['bos_token_id', 'eos_token_id', 'pad_token_id', 'decoder_start_token_id'];

/** Writes the small config into a folder, and answers the job that uses it. */
export function tinyJob(job, folder) {
  const small = { ...job, batch: 2, loaderMs: 5, statedGiB: job.statedGiB && 0.75 };
  if (job.source === 'torchvision') return { ...small, model: 'resnet18', seq: 64 };
  if (job.source === 'script') return { ...small, batch: 1, seq: 4 };
  const config = JSON.parse(readFileSync(job.path, 'utf8'));
  for (const [key, value] of Object.entries(sizes))
    if (config[key] !== undefined) config[key] = value;
  if (Array.isArray(config.num_heads) || config.depths) config.num_heads = [2, 2];
  for (const key of ids) if (config[key] >= 256) config[key] = 1;
  for (const key of dropped) delete config[key];
  const path = join(folder, `${job.name}-${basename(job.path)}`);
  writeFileSync(path, JSON.stringify(config));
  const isImage = config.image_size !== undefined;
  return { ...small, path, seq: isImage ? config.image_size : 16 };
}
