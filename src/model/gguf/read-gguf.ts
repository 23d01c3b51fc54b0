import { basename, dirname, join } from 'node:path';
import { Failure } from '../../failure.js';
import type { ConfigValues } from '../config/config-fields.js';
import { describeConfig } from '../config/describe-config.js';
import { withFile } from '../files/disk.js';
import { limits } from '../limits.js';
import type { Model, ModelDescription, Weights } from '../model.js';
import { WeightTally } from '../weight-tally.js';
import { badGguf, type GgufHeader, type GgufValue, readGgufHeader } from './gguf-header.js';

/**
 * Reads a GGUF file, or all parts of one that was split (`name-00001-of-00003.gguf`): the weights by
 * their headers, and the model they belong to where its architecture is known. Throws a `Failure`
 * (`no-file` or `bad-gguf`) that names the file.
 *
 * @example
 * const model = readGguf('model-Q4_K_M.gguf');
 * model.weights?.byType[0]?.type; // 'Q4_K'
 */
export function readGguf(path: string): Model {
  const tally = new WeightTally();
  const files = partsOf(path);
  const headers = files.map((file) =>
    withFile(file, (source) => readGgufHeader(source, file, tally)),
  );
  const weights = tally.total('gguf', files, (what) => badGguf(path, what));
  return { path, weights, description: describeHeaders(headers, weights, tally) };
}

/** All parts of a split file, in order; the file alone where it is whole. */
function partsOf(path: string): readonly string[] {
  const match = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(basename(path));
  if (match === null) return [path];
  const [, stem, , count = ''] = match;
  if (Number(count) < 1 || Number(count) > limits.shards) {
    throw badGguf(path, `its name says that it is one of ${count} parts`);
  }
  return Array.from({ length: Number(count) }, (_, index) => {
    const number = String(index + 1).padStart(5, '0');
    return join(dirname(path), `${stem}-${number}-of-${count}.gguf`);
  });
}

/** Only the first part of a split file has the keys of the model. */
function describeHeaders(
  headers: readonly GgufHeader[],
  weights: Weights,
  tally: WeightTally,
): ModelDescription {
  const keys = headers[0]?.keys ?? new Map();
  const vocabulary = headers.find((header) => header.embeddingShape)?.embeddingShape?.[0];
  const found = configFromGguf(keys, { vocabulary, tied: !tally.has('output.weight') });
  if ('why' in found) return unknownModel(keys, weights, `${found.why}.`);
  try {
    return describeConfig(found.config, 'its keys');
  } catch (error) {
    // The weights were read and are sound; keys that make no model only cost the description.
    if (!(error instanceof Failure)) throw error;
    return unknownModel(keys, weights, error.fact);
  }
}

function unknownModel(
  keys: GgufHeader['keys'],
  { parameters }: Weights,
  why: string,
): ModelDescription {
  const architecture = keys.get('general.architecture');
  const title = keys.get('general.name');
  return {
    family: 'unknown',
    modelType: typeof architecture === 'string' ? architecture : 'unknown',
    ...(typeof title === 'string' ? { name: title } : {}),
    parameters,
    notes: [`Only the tensors of the file are known: ${why}`],
  };
}

/** A field of a Hugging Face config, and the key of a GGUF file (after the architecture) for it. */
type FieldMap = Readonly<Record<string, string>>;

interface Architecture {
  readonly modelType: string;
  /** Without these the family's defaults would stand in, which would be made up. */
  readonly needed: FieldMap;
  readonly optional?: FieldMap;
  /** Fields that follow from others. */
  readonly derive?: (config: ConfigValues) => ConfigValues;
}

const needed: FieldMap = {
  hidden_size: 'embedding_length',
  num_hidden_layers: 'block_count',
  num_attention_heads: 'attention.head_count',
  intermediate_size: 'feed_forward_length',
  max_position_embeddings: 'context_length',
};
const grouped: FieldMap = {
  num_key_value_heads: 'attention.head_count_kv',
  head_dim: 'attention.key_length',
};
const experts: FieldMap = {
  num_experts: 'expert_count',
  num_experts_per_tok: 'expert_used_count',
  moe_intermediate_size: 'expert_feed_forward_length',
};
const sliding: FieldMap = { ...grouped, sliding_window: 'attention.sliding_window' };

/** By `general.architecture`. */
const architectures: Readonly<Record<string, Architecture>> = {
  llama: { modelType: 'llama', needed, optional: grouped },
  qwen2: { modelType: 'qwen2', needed, optional: grouped },
  qwen3: { modelType: 'qwen3', needed, optional: grouped },
  qwen2moe: {
    modelType: 'qwen2_moe',
    needed: {
      ...needed,
      ...experts,
      shared_expert_intermediate_size: 'expert_shared_feed_forward_length',
    },
    optional: grouped,
  },
  qwen3moe: { modelType: 'qwen3_moe', needed: { ...needed, ...experts }, optional: grouped },
  gemma: { modelType: 'gemma', needed, optional: grouped },
  gemma2: { modelType: 'gemma2', needed, optional: sliding },
  gemma3: { modelType: 'gemma3_text', needed, optional: sliding },
  phi2: { modelType: 'phi', needed, optional: grouped },
  phi3: { modelType: 'phi3', needed, optional: sliding },
  gpt2: {
    modelType: 'gpt2',
    needed: { ...needed, n_inner: 'feed_forward_length' },
  },
  gptneox: { modelType: 'gpt_neox', needed },
  bloom: { modelType: 'bloom', needed },
  falcon: {
    modelType: 'falcon',
    needed: { ...needed, ffn_hidden_size: 'feed_forward_length' },
    optional: { num_kv_heads: 'attention.head_count_kv' },
    // Falcon 7B has one key head; the grouped ones came with the new kind of layer.
    derive: ({ num_kv_heads: kvHeads }) => ({
      new_decoder_architecture: typeof kvHeads === 'number' && kvHeads > 1,
    }),
  },
  deepseek2: {
    modelType: 'deepseek_v2',
    needed: {
      ...needed,
      n_routed_experts: 'expert_count',
      num_experts_per_tok: 'expert_used_count',
      n_shared_experts: 'expert_shared_count',
      moe_intermediate_size: 'expert_feed_forward_length',
      first_k_dense_replace: 'leading_dense_block_count',
      kv_lora_rank: 'attention.kv_lora_rank',
      qk_rope_head_dim: 'rope.dimension_count',
      keyLength: 'attention.key_length',
      v_head_dim: 'attention.value_length',
    },
    optional: {
      q_lora_rank: 'attention.q_lora_rank',
      keyLengthOfHeads: 'attention.key_length_mla',
      valueLengthOfHeads: 'attention.value_length_mla',
    },
    derive: deepseekFields,
  },
  bert: { modelType: 'bert', needed, derive: () => ({ architectures: ['BertModel'] }) },
};

/** Newer files give the sizes of the shrunk cache in the plain keys, those of the heads apart. */
function deepseekFields(config: ConfigValues): ConfigValues {
  const keyLength = config.keyLengthOfHeads ?? config.keyLength;
  return {
    qk_nope_head_dim: Number(keyLength) - Number(config.qk_rope_head_dim),
    v_head_dim: config.valueLengthOfHeads ?? config.v_head_dim,
    q_lora_rank: config.q_lora_rank ?? null,
  };
}

/** Experts in the architecture named `llama` are those of Mixtral. */
const mixtral: Architecture = {
  modelType: 'mixtral',
  needed: {
    ...needed,
    num_local_experts: 'expert_count',
    num_experts_per_tok: 'expert_used_count',
  },
  optional: grouped,
};

type GgufConfig =
  | { readonly config: ConfigValues }
  /** Why no config could be made. */
  | { readonly why: string };

/** The config that a GGUF file's keys stand for, in the words of Hugging Face. */
function configFromGguf(
  keys: ReadonlyMap<string, GgufValue>,
  tensors: { readonly vocabulary: number | undefined; readonly tied: boolean },
): GgufConfig {
  const name = keys.get('general.architecture');
  if (typeof name !== 'string') return { why: 'it names no architecture' };
  const architecture = architectureOf(name, keys);
  if (architecture === undefined) return { why: `its architecture "${name}" is not known` };
  const vocabulary = tensors.vocabulary ?? vocabularyOf(name, keys);
  if (vocabulary === undefined) return { why: 'the size of its vocabulary is missing' };
  const config: Record<string, unknown> = {
    model_type: architecture.modelType,
    vocab_size: vocabulary,
    tie_word_embeddings: tensors.tied,
  };
  for (const [field, key] of Object.entries(architecture.needed)) {
    const value = keys.get(`${name}.${key}`);
    if (typeof value !== 'number') return { why: `its key "${name}.${key}" is not one number` };
    config[field] = value;
  }
  for (const [field, key] of Object.entries(architecture.optional ?? {})) {
    const value = keys.get(`${name}.${key}`);
    if (value === undefined) continue;
    if (typeof value !== 'number') return { why: `its key "${name}.${key}" is not one number` };
    config[field] = value;
  }
  const title = keys.get('general.name');
  if (typeof title === 'string') config['_name_or_path'] = title;
  return { config: { ...config, ...architecture.derive?.(config) } };
}

function architectureOf(
  name: string,
  keys: ReadonlyMap<string, GgufValue>,
): Architecture | undefined {
  const count = keys.get(`${name}.expert_count`);
  if (name === 'llama' && typeof count === 'number' && count > 0) return mixtral;
  return Object.hasOwn(architectures, name) ? architectures[name] : undefined;
}

function vocabularyOf(name: string, keys: ReadonlyMap<string, GgufValue>): number | undefined {
  const stated = keys.get(`${name}.vocab_size`);
  if (typeof stated === 'number') return stated;
  const tokens = keys.get('tokenizer.ggml.tokens');
  return typeof tokens === 'object' ? tokens.length : undefined;
}
