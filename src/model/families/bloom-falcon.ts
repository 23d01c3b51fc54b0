import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import type { ParameterList } from '../parameter-list.js';
import {
  addDecoderHead,
  decoderClasses,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  quotient,
} from './family.js';

/** Falcon grew out of Bloom: the same frame and names, with other attention and norms. */
interface Shape {
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly inner: number;
  readonly bias: boolean;
  readonly activation: string;
  readonly alibi: boolean;
  readonly parallel: boolean;
  readonly norms: readonly string[];
  readonly embeddingNorm: boolean;
}

function bloomShape(fields: ConfigFields, hidden: number): Shape {
  const heads = fields.size('n_head');
  return {
    layers: fields.layers('n_layer'),
    heads,
    kvHeads: heads,
    inner: 4 * hidden,
    bias: true,
    // Fixed in the code of the model, not in its config.
    activation: 'gelu_new',
    alibi: true,
    parallel: false,
    norms: ['input_layernorm', 'post_attention_layernorm'],
    embeddingNorm: true,
  };
}

function falconShape(fields: ConfigFields, hidden: number): Shape {
  const heads = fields.size('num_attention_heads');
  const grouped = fields.flag('new_decoder_architecture');
  const parallel = fields.flag('parallel_attn');
  const normsInParallel = fields.optionalSize('num_ln_in_parallel_attn') ?? (grouped ? 2 : 1);
  const single = grouped ? (fields.optionalSize('num_kv_heads') ?? heads) : 1;
  return {
    layers: fields.layers('num_hidden_layers'),
    heads,
    kvHeads: grouped || fields.flag('multi_query') ? single : heads,
    inner: fields.optionalSize('ffn_hidden_size') ?? 4 * hidden,
    bias: fields.flag('bias'),
    activation: fields.text('activation'),
    alibi: fields.flag('alibi'),
    parallel,
    norms: falconNorms(parallel, normsInParallel),
    embeddingNorm: false,
  };
}

function falconNorms(parallel: boolean, inParallel: number): readonly string[] {
  if (!parallel) return ['input_layernorm', 'post_attention_layernorm'];
  return inParallel === 2 ? ['ln_attn', 'ln_mlp'] : ['input_layernorm'];
}

function addBody(body: ParameterList, hidden: number, headDim: number, shape: Shape): void {
  body.norm('ln_f', hidden);
  if (shape.embeddingNorm) body.norm('word_embeddings_layernorm', hidden);
  const layer = body.scope('h.*', shape.layers);
  for (const norm of shape.norms) layer.norm(norm, hidden);
  const qkv = hidden + 2 * shape.kvHeads * headDim;
  layer.linear('self_attention.query_key_value', hidden, qkv, shape.bias);
  layer.linear('self_attention.dense', hidden, hidden, shape.bias);
  layer.linear('mlp.dense_h_to_4h', hidden, shape.inner, shape.bias);
  layer.linear('mlp.dense_4h_to_h', shape.inner, hidden, shape.bias);
}

function describe(
  fields: ConfigFields,
  head: Head,
  shapeOf: (fields: ConfigFields, hidden: number) => Shape,
): FamilyParts {
  const hidden = fields.optionalSize('n_embed') ?? fields.size('hidden_size');
  const shape = shapeOf(fields, hidden);
  const { heads, kvHeads, inner, bias } = shape;
  const headDim = quotient(fields, hidden, heads);
  const vocabulary = fields.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'transformer', tokenHead: 'classifier' },
    { hidden, vocabulary, tied },
  );
  body.embedding('word_embeddings', vocabulary, hidden);
  addBody(body, hidden, headDim, shape);
  return oneStack(
    { kind: 'decoder', head, outputs, tied, parameters },
    {
      role: 'text',
      hidden,
      input: {
        kind: 'tokens',
        vocabulary,
        maxPositions: shape.alibi ? 'unknown' : fields.size('max_position_embeddings'),
        positions: shape.alibi ? 'alibi' : 'rotary',
      },
      dropout: {
        ...noDropout,
        attention: fields.number('attention_dropout'),
        hidden: fields.number('hidden_dropout'),
      },
      layers: equalLayers(shape.layers, {
        hidden,
        attention: {
          reach: 'full',
          heads,
          kvHeads,
          headDim,
          fused: true,
          bias,
          queryKeyNorm: false,
        },
        feedForward: { inner, gated: false, activation: shape.activation, bias },
        parallel: shape.parallel,
        norm: 'layer',
        norms: shape.norms.length,
      }),
    },
  );
}

export const bloomAndFalcon: Readonly<Record<string, FamilyRules>> = {
  bloom: {
    family: 'bloom',
    classes: decoderClasses('Bloom'),
    table: {
      defaults: {
        vocab_size: 250880,
        hidden_size: 64,
        n_layer: 2,
        n_head: 8,
        hidden_dropout: 0,
        attention_dropout: 0,
        tie_word_embeddings: true,
      },
      aliases: { n_layer: ['num_hidden_layers'], n_head: ['num_attention_heads'] },
    },
    describe: (fields, _, head) => describe(fields, head, bloomShape),
  },
  falcon: {
    family: 'falcon',
    classes: decoderClasses('Falcon'),
    table: {
      defaults: {
        vocab_size: 65024,
        hidden_size: 4544,
        num_hidden_layers: 32,
        num_attention_heads: 71,
        num_ln_in_parallel_attn: null,
        num_kv_heads: null,
        alibi: false,
        new_decoder_architecture: false,
        multi_query: true,
        parallel_attn: true,
        bias: false,
        ffn_hidden_size: null,
        activation: 'gelu',
        hidden_dropout: 0,
        attention_dropout: 0,
        max_position_embeddings: 2048,
        tie_word_embeddings: true,
      },
    },
    describe: (fields, _, head) => describe(fields, head, falconShape),
  },
};
